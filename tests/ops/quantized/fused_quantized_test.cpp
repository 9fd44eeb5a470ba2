#include <cstdlib>
#include <optional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/autograd/autograd.h>
#include <etna/tensor/capture.h>
#include <etna/tensor/internal/fusion.h>
#include <etna/tensor/internal/overrides.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/normalization/internal/norm.h>
#include <nn/on_device.h>
#include <ops/quantized/quantized_exact.h>

// Plain calls of matmuls with weights in block formats are fused into few calls (tensor/ops/quantized/fusion.cpp).
namespace etna {
namespace {

using quantized::weight;

enum class Gated { silu, gelu_tanh, relu_squared, swiglu };

/// The matmuls of a decoder's layer, with the mean of query, key and value in place of attention.
struct QuantizedLayer {
  QuantizedTensor query, key, value, output, gate, up, down;
  Tensor norm, ffn_norm, next_norm, query_bias, value_bias;
  Gated gated = Gated::silu;

  QuantizedLayer(const char* format, std::int64_t width, std::int64_t wide, Device device, bool biased)
      : query(weight(format, width, width, 1).to(device)),
        key(weight(format, width, width, 2).to(device)),
        value(weight(format, width, width, 3).to(device)),
        output(weight(format, width, width, 4).to(device)),
        gate(weight(format, wide, width, 5).to(device)),
        up(weight(format, wide, width, 6).to(device)),
        down(weight(format, width, wide, 7).to(device)),
        norm(numerics::values({width}, 8, f32).to(device)),
        ffn_norm(numerics::values({width}, 9, f32).to(device)),
        next_norm(numerics::values({width}, 10, f32).to(device)) {
    if (!biased) return;
    query_bias = numerics::values({width}, 11, f32).to(device);
    value_bias = numerics::values({width}, 12, f32).to(device);
  }

  Tensor attention(const Tensor& x) const {
    const std::int64_t width = x.size(-1);
    const Tensor qkv = cat({quantized_linear(x, query, {.bias = query_bias}), quantized_linear(x, key),
                            quantized_linear(x, value, {.bias = value_bias})},
                           -1);
    return quantized_linear(
        (qkv.slice(-1, 0, width) + qkv.slice(-1, width, 2 * width) + qkv.slice(-1, 2 * width, 3 * width)) / 3.0,
        output);
  }

  Tensor feed_forward(const Tensor& x) const {
    if (gated == Gated::swiglu) {
      const Tensor g = quantized_linear(x, gate), u = quantized_linear(x, up);
      return quantized_linear(silu(g) * u, down);
    }
    Tensor h = quantized_linear(x, gate);
    h = gated == Gated::silu ? silu(h) : gated == Gated::gelu_tanh ? gelu_tanh(h) : relu_squared(h);
    h = h * quantized_linear(x, up);
    return quantized_linear(h, down);
  }

  Tensor forward(const Tensor& x) const {
    const Tensor y = x + attention(rms_norm(x, norm, 1e-6));
    const Tensor z = y + feed_forward(rms_norm(y, ffn_norm, 1e-6));
    return quantized_linear(rms_norm(z, next_norm, 1e-6), query);
  }
};

class FusedQuantized : public OnDevice {
 protected:
  /// f without a tape, one call after the other or fused; eager calls on the CPU are fused, too.
  template <typename F>
  auto run(bool fused, F&& f) const {
    const NoGrad off;
    const Override scope(&Overrides::fuse_calls, fused);
    const fusion::OnCpu on_cpu(device());
    return f();
  }
  Tensor draw(const Shape& shape, unsigned seed = 20) const { return numerics::values(shape, seed, f32).to(device()); }
};
ETNA_ON_EVERY_DEVICE(FusedQuantized);

TEST_P(FusedQuantized, ADecoderLayerIsAFewCalls) {
  for (const char* format : {"Q8_0", "F16", "F32"}) {
    for (const std::int64_t rows : tried<std::int64_t>({1, 2, 12, 40, 5})) {
      for (const Gated gated : tried<Gated>({Gated::silu, Gated::relu_squared, Gated::swiglu, Gated::gelu_tanh})) {
        QuantizedLayer layer(format, 64, 96, device(), gated == Gated::silu);
        layer.gated = gated;
        const Tensor x = draw({rows, 1, 64});
        const auto f = [&] { return layer.forward(x); };
        const Tensor plain = run(false, f), fused = run(true, f);
        const double size = plain.abs().max().item<double>();
        expect_near(fused, plain, (std::string_view(format) == "F32" ? 1e-5 : 2e-2) * size);
        const NoGrad off;
        auto step =
            capture([&](const Tensor& in) { return layer.forward(in); }, {.device = device(), .one_by_one = true});
        step(x), step(x);
        EXPECT_EQ(step(x).to_vector<float>(), fused.to_vector<float>()) << format << ", " << rows << " rows";
        std::optional<Override<bool>> one_by_one(std::in_place, &Overrides::fuse_calls, false);
        auto plainly =
            capture([&](const Tensor& in) { return layer.forward(in); }, {.device = device(), .one_by_one = true});
        plainly(x), plainly(x);
        one_by_one.reset();
        // Norm, query, key, value and cat are one call; so are output and add; norm, gate, activation, up and mul; down
        // and add; the last norm and product.
        if (device().is_cpu()) {
          EXPECT_EQ(plainly.report().commands - step.report().commands, 11);
        } else {
          EXPECT_LT(step.report().commands, plainly.report().commands) << format << ", " << rows << " rows";
        }
      }
    }
  }
}

/// A norm that was fused into a matmul is computed when its result is read, even after x has changed.
TEST_P(FusedQuantized, WhatIsLeftOutIsThereForWhoReadsIt) {
  const QuantizedTensor w = weight("Q8_0", 64, 64).to(device()), v = weight("Q8_0", 32, 64, 2).to(device());
  const Tensor norm = draw({64}, 2);
  for (const std::int64_t rows : {1, 20}) {
    for (const int reader : {0, 1, 2, 3}) {
      const auto f = [&] {
        Tensor x = draw({rows, 64});
        const Tensor n = rms_norm(x, norm);
        Tensor y = quantized_linear(n, w);
        y = quantized_linear(x, v) + 1.0;
        if (reader == 1) x.fill_(7);
        if (reader == 2) x = x + n;
        if (reader == 3) y = y + sum(n.reshape({rows, 2, 32}), {1});
        return TensorList{x, y, n};
      };
      const TensorList fused = run(true, f), plain = run(false, f);
      for (const std::size_t i : {0u, 2u})
        EXPECT_EQ(fused[i].to_vector<float>(), plain[i].to_vector<float>()) << rows << " rows, " << reader;
      expect_near(fused[1], plain[1], 1e-3 * plain[1].abs().max().item<double>());
    }
  }
}

/// A quantized form is only used while the values it was made of are unchanged.
TEST_P(FusedQuantized, AFormIsNotReadAfterItsTensorHasChanged) {
  const QuantizedTensor w = weight("Q8_0", 64, 64).to(device()), v = weight("Q8_0", 32, 64, 2).to(device());
  const Tensor norm = draw({64}, 2);
  for (const std::int64_t rows : {1, 2, 20}) {
    const auto f = [&] {
      const Tensor x = draw({rows, 64}), y = x + quantized_linear(x, w);
      Tensor n = rms_norm(y, norm);
      const Tensor before = quantized_linear(n, v);
      n.mul_(3.0);
      const Tensor after = quantized_linear(n, v);
      return TensorList{before, after, n};
    };
    const TensorList fused = run(true, f), plain = run(false, f);
    for (std::size_t i = 0; i < 3; ++i) expect_near(fused[i], plain[i], 2e-2 * plain[i].abs().max().item<double>());
    expect_near(fused[1], fused[0] * 3.0, 2e-2 * plain[1].abs().max().item<double>());
  }
}

/// Heads of a delta net's result are normed and gated while they are quantized, whatever their magnitude.
TEST_P(FusedQuantized, AGatedNormIsQuantizedForTheMatmulThatReadsIt) {
  const QuantizedTensor w = weight("Q8_0", 48, 128).to(device());
  const Tensor norm = draw({32}, 2);
  for (const std::int64_t rows : {1, 3, 20}) {
    for (const double scale : {1.0, 1e25, 1e-25, 0.0}) {
      const Tensor x = draw({rows, 1, 4, 32}, 3) * scale, gates = draw({rows, 1, 144}, 4).slice(-1, 8, 136);
      const auto f = [&] {
        const Tensor n = normalization::gated_rms_norm(x, norm, 1e-6, gates.reshape(x.shape()));
        const Tensor y = quantized_linear(n.reshape({rows, 1, 128}), w);
        return TensorList{y, n};
      };
      const TensorList fused = run(true, f), plain = run(false, f);
      for (std::size_t i = 0; i < 2; ++i)
        expect_near(fused[i], plain[i], 2e-2 * plain[i].abs().max().item<double>() + 1e-30);
    }
  }
}

/// All matmuls that read the same norm, consecutive or not, share one quantized form.
TEST_P(FusedQuantized, ManyProductsShareTheirRows) {
  std::vector<QuantizedTensor> w;
  for (unsigned i = 0; i < 5; ++i) w.push_back(weight("Q8_0", 32, 64, i + 1).to(device()));
  const Tensor norm = draw({64}, 2);
  for (const std::int64_t rows : {1, 20}) {
    const Tensor x = draw({rows, 64});
    const auto f = [&] {
      const Tensor n = rms_norm(x, norm);
      TensorList all;
      for (const QuantizedTensor& each : w) all.push_back(tanh(quantized_linear(n, each)));
      return all;
    };
    const TensorList fused = run(true, f), plain = run(false, f);
    for (std::size_t i = 0; i < w.size(); ++i) expect_near(fused[i], plain[i], 2e-2);
  }
}

TEST_P(FusedQuantized, TheResultsOfProductsThatAreReadElsewhereStay) {
  const QuantizedTensor gate = weight("Q8_0", 32, 64).to(device()), up = weight("Q8_0", 32, 64, 2).to(device());
  const Tensor x = draw({2, 64});
  const auto f = [&] {
    const Tensor g = quantized_linear(x, gate), a = silu(g), u = quantized_linear(x, up), y = a * u;
    const Tensor both = cat({g, u}, -1);
    return TensorList{g, a, u, y, both, y + 1.0};
  };
  const TensorList fused = run(true, f), plain = run(false, f);
  for (std::size_t i = 0; i < fused.size(); ++i)
    EXPECT_EQ(fused[i].to_vector<float>(), plain[i].to_vector<float>()) << i;
}

/// Gradients flow to x and to adapters of frozen weights.
TEST_P(FusedQuantized, GradientsAreThoseOfSingleCalls) {
  const QuantizedLayer layer("Q8_0", 64, 96, device(), true);
  const auto gradient = [&](bool fused) {
    const Override scope(&Overrides::fuse_calls, fused);
    Tensor x = draw({3, 1, 64});
    x.requires_grad_();
    layer.forward(x).square().sum().backward();
    return x.grad();
  };
  const Tensor plain = gradient(false);
  expect_near(gradient(true), plain, 5e-2 * plain.abs().max().item<double>());
}

TEST(FusionLog, SaysWhatWasFusedAndWhyNot) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto run = [](bool kept) {
    setenv("ETNA_FUSE_LOG", "1", 1);
    {
      const NoGrad off;
      const fusion::OnCpu on_cpu(kCPU);
      const Tensor x = ones({1, 64}), y = quantized_linear(x, weight("Q8_0", 64, 64));
      const Tensor z = x + (kept ? y : quantized_linear(x, weight("Q8_0", 64, 64)));
      z.to_vector<float>();
    }
    std::exit(0);
  };
  EXPECT_EXIT(run(false), testing::ExitedWithCode(0), "etna: fused quantized_linear, add -> quantized_linear\n");
  EXPECT_EXIT(run(true), testing::ExitedWithCode(0),
              "etna: not fused quantized_linear, add -> quantized_linear: the matmul's result is read elsewhere");
}

}  // namespace
}  // namespace etna
