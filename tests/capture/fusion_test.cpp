#include "fusion.h"

#include <map>

namespace etna {
namespace {

using Fusion = Fused;
INSTANTIATE_TEST_SUITE_P(, Fusion, testing::Values(kVulkan), device_test_name);

TEST_P(Fusion, MakesOneKernelOfAChain) {
  for (const Shape& shape : {Shape{8, 128}, Shape{7, 13}, Shape{1}, Shape{3, 4096}}) {
    Tensor x = normal(shape), b = normal(shape, f32, 2);
    CaptureReport r = expect_same([&] { return TensorList{x * sigmoid(x * 1.702) + b}; });
    EXPECT_EQ(r.commands, 1) << str(shape);
    EXPECT_EQ(r.fused_commands, 4);
    EXPECT_EQ(r.fused_kernels, 1);
    // Three results are neither written nor read again.
    EXPECT_EQ(r.fused_bytes, static_cast<std::uint64_t>(x.numel()) * 4 * 7);
    EXPECT_EQ(r.naive_bytes, 0u);
  }
}

TEST_P(Fusion, MakesOneKernelOfADiamond) {
  Tensor x = normal({5, 64});
  CaptureReport r = expect_same([&] {
    Tensor t = exp(x * 0.5);
    return TensorList{t / (t + 1.0) + tanh(t)};
  });
  EXPECT_EQ(r.commands, 1);
}

TEST_P(Fusion, WritesWhatIsKept) {
  Tensor x = normal({4, 32});
  CaptureReport r = expect_same([&] {
    Tensor t = tanh(x), u = t * 2.0, v = u + x;
    return TensorList{t, v, v - u};
  });
  EXPECT_EQ(r.commands, 1);
  EXPECT_EQ(r.kept_bytes, 3u * 4 * 32 * 4);
}

TEST_P(Fusion, WritesWhatAnotherCommandReads) {
  Tensor x = normal({8, 16}), w = normal({16, 16}, f32, 2);
  CaptureReport r = expect_same([&] {
    Tensor t = tanh(x * 2.0);
    return TensorList{matmul(t, w) + t};
  });
  EXPECT_EQ(r.fused_kernels, 1);  // mul and tanh; the sum waits for the product
}

TEST_P(Fusion, RoundsEachResultToItsDtype) {
  for (DType t : {f16, bf16}) {
    for (const Shape& shape : {Shape{6, 40}, Shape{5, 7}}) {
      Tensor x = normal(shape, t), y = normal(shape, f32, 2);
      CaptureReport r = expect_same([&] {
        Tensor a = silu(x) * x + x, b = (y * 1.1).to(t) * a;
        return TensorList{b.to(f32) * y - (y * 3.0).to(t).to(f32), b};
      });
      EXPECT_EQ(r.commands, 1) << name(t);
    }
  }
}

TEST_P(Fusion, KeepsMultiplyAndAddApart) {
  // x * y + z rounded once differs from x * y + z rounded twice in the bits of most elements.
  Tensor x = normal({64, 64}), y = normal({64, 64}, f32, 2), z = normal({64, 64}, f32, 3);
  CaptureReport r = expect_same([&] {
    Tensor p = x * y;
    return TensorList{p + z, p - z, x * 0.3 + p * 0.7, exp(log(abs(p))), sqrt(square(p)), reciprocal(reciprocal(p))};
  });
  EXPECT_GE(r.fused_kernels, 1);
}

TEST_P(Fusion, TakesIntegersAndTruthValues) {
  for (const Shape& shape : {Shape{4, 24}, Shape{3, 5}}) {
    Tensor x = normal(shape), i = (normal(shape, f32, 2) * 50.0).to(i32), b = (normal(shape, f32, 3) * 90.0).to(i8);
    Tensor u = abs(normal(shape, f32, 4) * 90.0).to(u8), wide = i.to(i64);
    CaptureReport r = expect_same([&] {
      Tensor mask = logical_and(gt(x, 0.1), ne(i, 3));
      Tensor n = i * 3 + b.to(i32);
      Tensor small = (n + 200).to(i8), unsigned8 = (n * 7).to(u8);
      return TensorList{where(mask, x, n.to(f32)), mask, small * small,    unsigned8 + u, small.to(f32) * 0.5,
                        wide.to(f32) * x,          n,    logical_not(mask)};
    });
    EXPECT_GE(r.fused_kernels, 1);
  }
}

TEST_P(Fusion, WalksBroadcastAndStridedOperands) {
  for (std::int64_t columns : {32, 9}) {
    Tensor x = normal({6, columns}), row = normal({columns}, f32, 2), column = normal({6, 1}, f32, 3);
    Tensor turned = normal({columns, 6}, f32, 4).t(),
           every = normal({6, 2 * columns}, f32, 5).reshape({6, columns, 2}).select(2, 1);
    Tensor one = normal({}, f32, 6), part = normal({6, columns + 8}, bf16, 7).slice(1, 4, columns + 4);
    CaptureReport r =
        expect_same([&] { return TensorList{((x + row) * column - turned) * every + one * x + part.to(f32)}; });
    EXPECT_EQ(r.commands, 1) << columns;
  }
}

TEST_P(Fusion, WalksFourDimensions) {
  Tensor x = normal({3, 4, 5, 8}), y = normal({5, 3, 8, 4}, f32, 2).permute({1, 3, 0, 2}),
         z = normal({3, 1, 5, 1}, f32, 3);
  CaptureReport r = expect_same([&] { return TensorList{(x * y + z) * y}; });
  EXPECT_EQ(r.commands, 1);
  Tensor a = normal({2, 3, 2, 3, 2, 4}), b = normal({4, 2, 3, 2, 3, 2}, f32, 2).permute({5, 4, 3, 2, 1, 0});
  expect_same([&] { return TensorList{(a * b + 1.0) * b}; });
}

TEST_P(Fusion, WritesInPlace) {
  Tensor x = normal({4, 20}), y = normal({4, 20}, f32, 2);
  CaptureReport r = expect_same([&] {
    NoGrad off;
    Tensor t = x * 2.0;
    t.add_(y, 0.5);
    t.mul_(3.0);
    Tensor u = t + x;
    u.slice(1, 0, 4).fill_(7.0);
    return TensorList{t, u};
  });
  EXPECT_GE(r.fused_kernels, 1);
}

TEST_P(Fusion, MovesNothingOverAWriteBetween) {
  Tensor x = normal({4, 16}), w = normal({16, 16}, f32, 2);
  expect_same([&] {
    NoGrad off;
    Tensor state = x.clone();
    Tensor before = state * 2.0;        // reads state
    Tensor product = matmul(state, w);  // reads state
    state.add_(product);                // writes it, after both
    Tensor after = state * 2.0;
    Tensor turned = state.slice(1, 0, 4).t() + 1.0;  // reads other elements of it
    state.mul_(0.5);
    return TensorList{before + after, state * before, turned, product};
  });
}

TEST_P(Fusion, ReadsOtherPlacesOfAResultOnceItIsWritten) {
  Tensor x = normal({16, 16});
  CaptureReport r = expect_same([&] {
    Tensor t = x * 2.0;
    return TensorList{t.t() + t};
  });
  EXPECT_EQ(r.commands, 2);
  expect_same([&] {
    NoGrad off;
    Tensor t = x * 2.0;
    Tensor row = t.slice(0, 0, 1);
    t.add_(row.clone());
    t.mul_(t.t().clone());
    return TensorList{t, row + 1.0};
  });
}

TEST_P(Fusion, CutsWhatIsTooLarge) {
  Tensor x = normal({4, 32});
  std::vector<Tensor> many;
  for (std::uint64_t i = 0; i < 30; ++i) many.push_back(normal({4, 32}, f32, i + 2));
  CaptureReport r = expect_same([&] {
    Tensor y = x;
    for (const Tensor& z : many) y = y * 0.9 + z;
    for (int i = 0; i < 30; ++i) y = tanh(y * 1.01);
    return TensorList{y};
  });
  EXPECT_GT(r.fused_kernels, 3);
  EXPECT_LT(r.commands, 20);
}

TEST_P(Fusion, ComputesWhatAReductionReads) {
  for (DType t : {f32, bf16}) {
    for (const Shape& shape : {Shape{6, 50}, Shape{2, 20000}}) {
      Tensor x = normal(shape, t), b = normal({shape[1]}, t, 2);
      for (bool all : {false, true}) {
        const Dims dims = all ? Dims{} : Dims{1};
        CaptureReport r = expect_same([&] {
          return TensorList{sum(x * b, dims), mean(square(x - 1.0), dims), max(exp(x), dims), var(x + b, dims),
                            logsumexp(x * 2.0, dims)};
        });
        EXPECT_EQ(r.fused_kernels, 5) << str(shape);
        EXPECT_GE(r.fused_commands, 11) << str(shape);
      }
    }
  }
}

TEST_P(Fusion, TakesMoreNumbersThanPushConstantsHold) {
  const TensorList others = {normal({20, 6}, f32, 2).t(), normal({6, 1}, f32, 3), normal({20}, f32, 4),
                             normal({6, 25}, f32, 5).slice(1, 3, 23)};
  Tensor x = normal({6, 50}).slice(1, 7, 27);
  for (bool reduced : {false, true}) {
    CaptureReport r = expect_same([&] {
      Tensor t = x;
      for (std::size_t i = 0; i < 12; ++i) t = (t + 0.1 * static_cast<double>(i)) * others[i % 4];
      return TensorList{reduced ? sum(t, {1}) : t};
    });
    EXPECT_EQ(r.commands, 1);
    EXPECT_GT(r.constant_bytes, 64u) << "a table of them";
  }
}

TEST_P(Fusion, KeepsWhatAReductionSharesWithOthers) {
  Tensor x = normal({6, 50});
  expect_same([&] {
    Tensor t = exp(x);
    Tensor s = t.sum({1}, true);
    return TensorList{t / s, gt(x, 0.0).to(i32).sum(), gt(x, 0.0).sum()};
  });
}

TEST_P(Fusion, FollowsAnActivationThroughBackward) {
  Tensor x = normal({8, 24}), w = normal({24, 24}, f32, 2), seed = normal({8, 24}, f32, 3);
  CaptureReport r = expect_same([&] {
    Tensor in = x.detach().requires_grad_(), weight = w.detach().requires_grad_();
    Tensor h = matmul(in, weight);
    Tensor y = h * tanh(softplus(h)) + 0.1 * h;
    TensorList results = autograd::grad(std::vector{y}, std::vector{in, weight}, std::vector{seed});
    results.push_back(y.detach());
    return results;
  });
  // The activation's forward and backward are adjacent, between matrix products.
  EXPECT_EQ(r.fused_kernels, 1);
  EXPECT_EQ(r.commands, 4);
}

TEST_P(Fusion, TakesTensorsWithoutElements) {
  Tensor x = normal({0, 4});
  expect_same([&] { return TensorList{(x * 2.0 + 1.0).sum(), x * 2.0 + x}; });
}

TEST_P(Fusion, IsNamedInProfiles) {
  Tensor x = normal({8, 8});
  auto step = capture([&] { return (tanh(x * 2.0) + x).sum(); }, {.device = kVulkan});
  profile::StepProfiler profiler({.skip = 2, .steps = 2, .what = {.timing = profile::Timing::dispatches}});
  for (int i = 0; i < 4; ++i) {
    profile::Scope scope = profiler.step();
    step();
  }
  const profile::Summary summary = profile::summarize(profiler.take().value());
  std::map<std::string, std::int64_t> calls;
  for (const auto& op : summary.ops) calls[op.name] = op.all_calls();
  EXPECT_EQ(calls["fused(mul, tanh, add, sum)"], 2) << testing::PrintToString(calls);
}

TEST_P(Fusion, TellsWhatItDid) {
  Tensor x = normal({8, 8});
  Environment cache("ETNA_CACHE_DIR", "/dev/null/etna");
  auto step = capture([&] { return tanh(x * 1.25) - rsqrt(abs(x)) * 0.125; }, {.device = kVulkan});
  for (int i = 0; i < 2; ++i) step();
  EXPECT_THAT(step.report().str(),
              testing::HasSubstr("fused: 6 commands in 1 kernels, 2.8 KiB no longer moved; 1 compiled in "));
}

}  // namespace
}  // namespace etna
