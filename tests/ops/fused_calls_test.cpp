#include <functional>
#include <random>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/device/internal/platform.h>
#include <etna/device/kernel.h>
#include <etna/etna.h>
#include <etna/tensor/internal/fusion.h>
#include <etna/tensor/internal/overrides.h>
#include <etna/tensor/ops/matmul/gemm/internal/tuned.h>
#include <etna/tensor/ops/quantized/internal/experts.h>
#include <nn/on_device.h>

namespace etna {
namespace {

using Step = std::function<TensorList()>;

/// Consecutive calls of ops become one call of a fused op (tensor/internal/fusion.h).
class FusedCalls : public OnDevice {
 protected:
  struct Seen {
    std::vector<std::vector<double>> values;
    std::int64_t commands = 0;
  };

  static std::vector<std::vector<double>> values(const TensorList& tensors) {
    std::vector<std::vector<double>> all;
    for (const Tensor& x : tensors) all.push_back(x.detach().to(f64).to(kCPU).to_vector<double>());
    return all;
  }

  /// A captured step's third call.
  Seen captured(const Step& f, bool fused) const {
    const Override scope(&Overrides::fuse_calls, fused);
    auto step = capture([&] { return f(); }, {.device = device(), .one_by_one = true});
    step(), step();
    Seen seen{values(step()), step.report().commands};
    return seen;
  }

  /// Fused and one by one, eagerly and captured, `f` gives the same values, except for rounding on a GPU.
  /// @return how many commands fusion saves
  std::int64_t saved(const Step& f, double tolerance = 2e-5) const {
    const Seen fused = captured(f, true), plain = captured(f, false);
    std::vector<std::vector<double>> eager = values(f()), eager_plain;
    {
      const Override off(&Overrides::fuse_calls, false);
      eager_plain = values(f());
    }
    EXPECT_EQ(eager, fused.values);
    EXPECT_EQ(eager_plain, plain.values);
    if (device().is_cpu()) {
      EXPECT_EQ(fused.values, plain.values);
    }
    EXPECT_EQ(fused.values.size(), plain.values.size());
    for (std::size_t i = 0; i < fused.values.size(); ++i) {
      EXPECT_EQ(fused.values[i].size(), plain.values[i].size());
      for (std::size_t k = 0; k < fused.values[i].size(); ++k) {
        EXPECT_NEAR(fused.values[i][k], plain.values[i][k], tolerance * (1 + std::abs(plain.values[i][k])))
            << "result " << i << ", element " << k;
      }
    }
    return plain.commands - fused.commands;
  }

  Tensor draw(const Shape& shape, DType t = f32) { return randn(shape).to(t).to(device()); }
};
ETNA_ON_EVERY_DEVICE(FusedCalls);

TEST_P(FusedCalls, AMixtureAndItsResidualAreOne) {
  NoGrad off;
  const auto blocks = [&](std::int64_t rows) {
    return quantize(randn({rows, 64}), quant::format_named("Q8_0")).to(device());
  };
  const QuantizedTensor gate = blocks(4 * 64), up = blocks(4 * 64), down = blocks(4 * 64);
  for (const std::int64_t rows : {2, 20}) {
    const Tensor x = draw({1, rows, 64}), flat = x.reshape({rows, 64});
    const ExpertChoice choice = choose_experts(draw({rows, 4}), {}, {.chosen = 2});
    const auto layer = [&] {
      return expert_feed_forward(flat, gate, up, down, choice, Activation::silu, 4).reshape(x.shape());
    };
    const std::int64_t commands = saved([&] { return TensorList{x + layer()}; });
    if (rows == 2 && !device().is_cpu()) {
      EXPECT_EQ(commands, 1);
    }
    saved([&] {
      const Tensor y = layer();
      return TensorList{y + x, y};
    });
  }
}

TEST_P(FusedCalls, ASumAndItsNormAreOne) {
  NoGrad off;
  Tensor x = draw({3, 5, 16}), d = draw({3, 5, 16}), w = draw({16}), b = draw({16});
  for (const Tensor& delta : {d, draw({5, 16}), draw({16}), d.to(bf16)}) {
    auto layer = [&] {
      Tensor s = x + delta;
      return TensorList{s, layer_norm(s, w, b)};
    };
    EXPECT_EQ(saved(layer), 1) << str(delta.shape());
    EXPECT_EQ(saved([&] {
                Tensor s = delta + x;
                return TensorList{s, rms_norm(s, w)};
              }),
              1)
        << str(delta.shape());
  }
  EXPECT_EQ(saved([&] { return TensorList{layer_norm(x + d, w, b)}; }), 1) << "in one expression";
}

TEST_P(FusedCalls, TheEndOfASublayerIsOne) {
  NoGrad off;
  Tensor x = draw({4, 32}), w = draw({16, 32}), bias = draw({16}), residual = draw({4, 16}), g = draw({16}),
         b = draw({16}), up = draw({24, 32}), down = draw({16, 24});
  auto linear_end = [&] {
    Tensor s = residual + linear(x, w, bias);
    return TensorList{s, layer_norm(s, g, b)};
  };
  auto feed_forward_end = [&] {
    Tensor s = residual + feed_forward(x, up, {}, down, bias, Activation::gelu);
    return TensorList{s, layer_norm(s, g, b)};
  };
  // On a GPU, the number of dispatches also depends on whether gemm and norm fit into one.
  EXPECT_GE(saved(linear_end), device().is_cpu() ? 2 : 1);
  EXPECT_GE(saved(feed_forward_end), device().is_cpu() ? 2 : 1);
  auto layer_kept = [&] {
    Tensor y = linear(x, w, bias), s = residual + y;
    return TensorList{y, s, layer_norm(s, g, b)};
  };
  EXPECT_EQ(saved(layer_kept), 1) << "the layer's result is wanted, so only sum and norm are one";
}

TEST_P(FusedCalls, AnActivationRunsInTheEpilogue) {
  Tensor x = draw({4, 32}), w = draw({16, 32}), bias = draw({16});
  for (auto activate : {relu, gelu, gelu_tanh, silu}) {
    NoGrad off;
    EXPECT_EQ(saved([&] { return TensorList{activate(linear(x, w, bias))}; }), 1);
    EXPECT_EQ(saved([&] {
                Tensor t = linear(x, w);
                return TensorList{t, activate(t)};
              }),
              1)
        << "writes both";
  }
}

TEST_P(FusedCalls, BackwardAddsPastTheNormAndThroughTheActivation) {
  nn::TransformerEncoderLayer first(16, 2, {.dim_feedforward = 24}), second(16, 2, {.dim_feedforward = 24});
  first.to(device()), second.to(device());
  auto feed_forward = [](const nn::TransformerEncoderLayer& layer, const Tensor& x) {
    return x + layer.linear2(gelu_tanh(layer.linear1(layer.norm2(x))));
  };
  Tensor x = draw({4, 16}), seed = draw({4, 16});
  for (DType precision : {f32, bf16}) {
    auto step = [&, precision] {
      Autocast guard(precision);
      Tensor leaf = detail::alias(x).requires_grad_();
      Tensor z = feed_forward(second, feed_forward(first, leaf));
      const Tensor wanted[] = {leaf, first.linear1.weight, first.norm2.weight, second.norm2.bias, second.linear2.bias};
      const Tensor outputs[] = {z}, seeds[] = {seed};
      return autograd::grad(outputs, wanted, seeds);
    };
    const double tolerance = precision == f32 ? 1e-4 : 0.1;
    // Forward two activations, and one end of a layer with sum and norm; backward two derivatives and two sums. 16 bits
    // are not fused on the CPU where that would skip a rounding.
    EXPECT_GE(saved(step, tolerance), precision == f32 ? 7 : 4);
  }
}

TEST_P(FusedCalls, WhatCannotBeFusedIsNot) {
  NoGrad off;
  Tensor x = draw({16, 16}), d = draw({16, 16}), w = draw({16}), b = draw({16}), other = draw({16, 16});
  auto expect_none = [&](const char* what, const Step& f) { EXPECT_EQ(saved(f), 0) << what; };
  expect_none("another op between", [&] {
    Tensor s = x + d, t = other * 2.0;
    return TensorList{layer_norm(s, w, b), t};
  });
  expect_none("the norm of another tensor", [&] { return TensorList{x + d, layer_norm(other, w, b)}; });
  expect_none("a row of the sum is the weight", [&] {
    Tensor s = x + d;
    return TensorList{layer_norm(s, s[0], b)};
  });
  expect_none("a number is added", [&] { return TensorList{layer_norm(x + 1.0, w, b)}; });
  expect_none("x is the narrow one", [&] {
    Tensor s = x.slice(0, 0, 1) + w.unsqueeze(1);  // both repeat
    return TensorList{layer_norm(s, w, b)};
  });
}

TEST_P(FusedCalls, WritesBetweenCallsAreSeenInOrder) {
  NoGrad off;
  Tensor w = ones({8}, {f32, device()}), b = zeros({8}, {f32, device()});
  for (int what = 0; what < 4; ++what) {
    auto f = [&] {
      Tensor x = full({2, 8}, 1, {f32, device()}), d = full({2, 8}, 2, {f32, device()});
      Tensor s = x + d;
      if (what == 0) x.fill_(100);
      if (what == 1) d.mul_(0);
      if (what == 2) s.slice(1, 0, 1).fill_(7);
      if (what == 3) s.add_(x);
      return TensorList{s.clone(), layer_norm(s, w, b), x + d};
    };
    saved(f);
    const double first = values(f())[0][0], second = values(f())[0][1];
    EXPECT_EQ(first, what == 2 ? 7 : what == 3 ? 4 : 3);
    EXPECT_EQ(second, what == 3 ? 4 : 3);
  }
}

TEST_P(FusedCalls, AResultThatIsLeftOutTakesNoMemory) {
  if (device().is_cpu()) GTEST_SKIP() << "eager calls are not fused there";
  NoGrad off;
  const Tensor x = full({256, 64}, 1, {f32, device()}), w = ones({1024, 64}, {f32, device()});
  const auto peak = [&](auto f) {
    synchronize(device());
    reset_peak_memory(device());
    const std::uint64_t before = memory_stats(device()).in_use;
    f();
    synchronize(device());
    return memory_stats(device()).peak - before;
  };
  EXPECT_LT(peak([&] { gelu(linear(x, w)); }), 3u << 19);
  const Override alone(&Overrides::fuse_calls, false);
  EXPECT_GE(peak([&] { gelu(linear(x, w)); }), 2u << 20);
}

TEST_P(FusedCalls, AResultIsThereForWhoeverReadsIt) {
  if (!kHasThreads) GTEST_SKIP() << "a build without threads";
  NoGrad off;
  Tensor x = full({2, 8}, 1, {f32, device()}), d = full({2, 8}, 2, {f32, device()});
  EXPECT_EQ((x + d).to_vector<float>(), std::vector<float>(16, 3));
  Tensor s = x + d;
  EXPECT_EQ(read_later(sum(s)).get(), 48);
  Tensor one = ones({}, {f32, device()}), two = one + one;
  EXPECT_EQ(read_later(two).get(), 2);
  Tensor on_host = x + d;
  EXPECT_EQ(on_host.to(kCPU)[1].to_vector<float>(), std::vector<float>(8, 3));
  Tensor seen_elsewhere = x + d;
  std::vector<float> read;
  std::thread([&] { read = seen_elsewhere.to_vector<float>(); }).join();
  EXPECT_EQ(read, std::vector<float>(16, 3));
  Tensor used_elsewhere = x + d, used;
  std::thread([&] {
    NoGrad also_off;
    used = used_elsewhere * 2.0;
  }).join();
  EXPECT_EQ(used.to_vector<float>(), std::vector<float>(16, 6));
}

TEST_P(FusedCalls, ResultsGoFromThreadToThread) {
  if (!kHasThreads) GTEST_SKIP() << "a build without threads";
  NoGrad off;
  Tensor w = ones({8}, {f32, device()}), b = zeros({8}, {f32, device()});
  std::vector<std::thread> threads;
  std::vector<int> wrong(4, 0);
  for (std::size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      NoGrad also_off;
      for (int i = 0; i < 30; ++i) {
        Tensor x = full({2, 8}, static_cast<double>(i), {f32, device()}), s = x + x, n;
        std::thread([&] {
          NoGrad inner_off;
          n = layer_norm(s, w, b);
        }).join();
        Tensor shifted = layer_norm(x + n, w, b);
        wrong[t] += s.to_vector<float>() != std::vector<float>(16, static_cast<float>(2 * i));
        wrong[t] += n.to_vector<float>() != std::vector<float>(16, 0.0f);
        wrong[t] += shifted.to_vector<float>() != std::vector<float>(16, 0.0f);
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, std::vector<int>(4, 0));
}

TEST_P(FusedCalls, ASettingOfAScopeHoldsForTheCallsMadeInIt) {
  NoGrad off;
  Tensor x = draw({4, 32}), w = draw({16, 32}), y;
  std::vector<std::string> seen;
  const std::function<void(const OpDef&)> see = [&](const OpDef& op) { seen.push_back(op.name); };
  {
    const Override compose(&Overrides::compose_ops, true);
    const Override scope(&Overrides::on_op, &see);
    y = linear(x, w);
  }
  EXPECT_THAT(seen, testing::Contains(std::string("matmul"))) << "the layer was composed";
  if (device().is_cpu()) return;
  gemm::ForcedConfig forced({gemm::KernelVariant::plain, {1, 2}});
  y = linear(x, w);
  synchronize(device());
  EXPECT_TRUE(forced.last_class().has_value());
}

TEST_P(FusedCalls, AnOpWithoutAKernelFallsBackWhenItIsCalled) {
  NoGrad off;
  if (device().is_cpu()) GTEST_SKIP() << "the CPU has all kernels";
  Tensor x = draw({2, 8}, f64);
  if (strict()) {
    EXPECT_THROW(x + x, DeviceError);
  } else {
    const std::uint64_t before = transfers().fallbacks;
    Tensor y = x + x;
    EXPECT_EQ(transfers().fallbacks, before + 1);
  }
}

TEST_P(FusedCalls, MemoryIsFreeWhenTheTensorsAre) {
  NoGrad off;
  Tensor x = draw({64, 64});
  const std::uint64_t before = memory_stats(device()).in_use;
  { Tensor s = x + x; }
  EXPECT_EQ(memory_stats(device()).in_use, before);
}

TEST_P(FusedCalls, ACallOfAHostCallbackReadsWhatTheStepHasNotChangedYet) {
  NoGrad off;
  Tensor x = ones({8}, {f32, device()}), zero = zeros({8}, {f32, device()}), before;
  auto step = capture(
      [&] {
        each_step([&] { before = x + zero; });
        x.mul_(2);
      },
      {.device = device()});
  for (float value : {1.0f, 2.0f, 4.0f, 8.0f}) {
    step();
    EXPECT_EQ(before.to_vector<float>(), std::vector<float>(8, value));
  }
}

TEST_P(FusedCalls, AFailedCaptureForgetsWhatItHeldBack) {
  NoGrad off;
  Tensor x = draw({2, 8}), w = ones({8}, {f32, device()});
  auto step = capture(
      [&](const Tensor& in) {
        Tensor s = in + x;
        if (capturing()) throw std::runtime_error("on purpose");
        return s;
      },
      {.device = device()});
  step(x);
  EXPECT_THROW(step(x), std::runtime_error);
  const Tensor twice = x + x;
  EXPECT_EQ(layer_norm(twice, w, {}).to_vector<float>(), layer_norm((x * 2.0).clone(), w, {}).to_vector<float>());
}

/// Sequences of the ops that patterns begin with, continue with, and of others, drawn from a seed.
TEST_P(FusedCalls, RandomProgramsGiveTheSameFusedAndOneByOne) {
  NoGrad off;
  Tensor base = draw({8, 8}), w = draw({8, 8}), row = draw({8});
  std::int64_t saved_in_all = 0;
  for (std::uint32_t seed = 1; seed <= 40; ++seed) {
    auto program = [&, seed] {
      std::mt19937 random(seed);
      TensorList live = {base, w * 0.5};
      auto any = [&] { return live[random() % 3 == 0 ? random() % live.size() : live.size() - 1]; };
      for (int i = 0; i < 14; ++i) {
        Tensor a = any();
        switch (random() % 9) {
          case 0:
          case 1:
            live.push_back(a + any());
            break;
          case 2:
            live.push_back(layer_norm(a, row, row));
            break;
          case 3:
            live.push_back(rms_norm(a, row));
            break;
          case 4:
            live.push_back(linear(a, w * 0.25, row));
            break;
          case 5:
            live.push_back(gelu_tanh(a));
            break;
          case 6:
            live.push_back(matmul(layer_norm(a, {}, {}), w));
            break;
          case 7:
            live.push_back(gelu_backward(a, tanh(any())));
            break;
          default:
            live.push_back(tanh(a));
            live.back().slice(0, 0, 2).add_(live.front().slice(0, 2, 4));
            break;
        }
        if (random() % 3 == 0) live.erase(live.begin() + static_cast<std::ptrdiff_t>(random() % live.size()));
        if (live.empty()) live.push_back(base);
      }
      return live;
    };
    SCOPED_TRACE(seed);
    saved_in_all += saved(program, 2e-3);
  }
  EXPECT_GT(saved_in_all, 20);
}

}  // namespace
}  // namespace etna
