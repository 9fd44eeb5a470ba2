#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include <gtest/gtest.h>

#include <etna/device/kernel.h>
#include <etna/tensor/capture.h>
#include <etna/tensor/ops/quantized/internal/gpu.h>
#include <nn/on_device.h>
#include <ops/quantized/quantized_exact.h>
#include <runner/run_tests.h>

// Matmuls of few rows in bytes on a GPU: x is quantized, 16 elements to a scale, so each may be off by half a quant.
namespace etna {
namespace {

using namespace quantized;

class QuantizedDot : public OnDevice {
 protected:
  /// Half a quant of each element of x, times the weight.
  static double largest_error(const std::vector<double>& x, const std::vector<double>& w) {
    double error = 0;
    for (std::size_t first = 0; first < x.size(); first += 32) {
      double most = 0, weights = 0;
      for (std::size_t j = first; j < first + 32; ++j) {
        most = std::max(most, std::abs(x[j]));
        weights += std::abs(w[j]);
      }
      error += 0.501 * most / 127 * weights;
    }
    return error;
  }

  /// Without a gate, the error of each element is within the bound of rounding, and the total error is small.
  static void expect_product(const Tensor& x, const std::vector<QuantizedTensor>& weights, const LinearOptions& options,
                             std::string_view what) {
    const Tensor y = fused_linear(x.to(kVulkan), on_gpu(weights), on_gpu(options));
    ASSERT_EQ(y.dtype(), x.dtype());
    const Exact e = exact(x, weights, options);
    const std::vector<double> got = y.to_vector<double>();
    ASSERT_EQ(got.size(), e.y.size()) << what;
    Tensor rows = x.to(kCPU, f64);
    if (options.norm.defined()) rows = rows / sqrt(mean(square(rows), {-1}, true) + options.eps) * options.norm.to(f64);
    std::vector<Tensor> all;
    for (const QuantizedTensor& w : weights) all.push_back(dequantize(w).to(f64));
    const Tensor w = cat(all);
    const double digits = x.dtype() == f32 ? 1e-5 : x.dtype() == f16 ? 1e-3 : 8e-3;
    double errors = 0, squares = 0;
    const std::int64_t columns = y.size(-1);
    for (std::size_t i = 0; i < got.size(); ++i) {
      const auto m = static_cast<std::int64_t>(i) / columns, n = static_cast<std::int64_t>(i) % columns;
      errors += (got[i] - e.y[i]) * (got[i] - e.y[i]);
      squares += e.magnitude[i] * e.magnitude[i];
      if (options.gate != Activation::none) continue;
      const double bound = largest_error(rows.select(0, m).to_vector<double>(), w.select(0, n).to_vector<double>());
      ASSERT_NEAR(got[i], e.y[i], bound + digits * e.magnitude[i]) << what << " element " << i;
    }
    EXPECT_LE(std::sqrt(errors / std::max(squares, 1e-300)), std::max(3e-3, digits)) << what;
  }
};

TEST_P(QuantizedDot, MultipliesEveryFormat) {
  std::int64_t rows = 1;
  for (const quant::BlockFormat* format : weight_formats()) {
    if (format->elements == 1) continue;
    expect_product(values({rows, 512}, 4, f32), {weight(format->name, 13, 512)}, {}, format->name);
    rows = rows == 1 ? 3 : 1;
  }
}

TEST_P(QuantizedDot, TakesOneToEightRowsOfEachDtype) {
  for (DType dtype : {f32, f16, bf16}) {
    for (std::int64_t rows : {1, 2, 3, 5, 8}) {
      const LinearOptions options{
          .bias = values({3}, 3, dtype), .norm = values({256}, 4, dtype), .residual = values({rows, 3}, 9, dtype)};
      expect_product(values({rows, 256}, 5, dtype), {weight("Q4_K", 3, 256)}, options, name(dtype));
    }
  }
}

TEST_P(QuantizedDot, TakesLongAndShortRows) {
  for (std::int64_t k : {32, 96, 2080, 5632}) {
    expect_product(values({1, k}, 6, f32), {weight("Q8_0", 3, k)}, {}, std::to_string(k));
    expect_product(values({2, k}, 6, f32), {weight("Q4_0", 40, k)}, {.norm = values({k}, 2, f32)}, std::to_string(k));
  }
}

TEST_P(QuantizedDot, MultipliesWithThreeFormatsAtOnce) {
  const std::vector<QuantizedTensor> mixed{weight("Q4_K", 11, 256), weight("Q6_K", 3, 256, 2),
                                           weight("Q8_0", 6, 256, 3)};
  const Tensor x = values({2, 256}, 5, f32);
  const auto before = gpu::queue_stats(kVulkan).dispatches;
  quantized_linear(x.to(kVulkan), on_gpu(mixed));
  EXPECT_EQ(gpu::queue_stats(kVulkan).dispatches - before, 2u);
  expect_product(x, mixed, {}, "three");
  // With an unquantized weight among them, the float kernel is used.
  quantized_linear(x.to(kVulkan), on_gpu({mixed[0], weight("F16", 3, 256)}));
  EXPECT_EQ(gpu::queue_stats(kVulkan).dispatches - before, 5u);
}

TEST_P(QuantizedDot, GatesTwoWeights) {
  for (Activation gate : {Activation::silu, Activation::gelu_tanh, Activation::relu_squared}) {
    for (const char* second : {"Q4_K", "Q6_K"}) {
      LinearOptions options{.norm = values({256}, 4, f32) * 0.2, .gate = gate};
      const std::vector<QuantizedTensor> weights{weight("Q4_K", 7, 256), weight(second, 7, 256, 2)};
      expect_product(values({3, 256}, 5, f32), weights, options, "plain");
      options.bias = values({14}, 8, f32);
      options.residual = values({3, 7}, 9, f32);
      expect_product(values({3, 256}, 5, f32), weights, options, "with bias and residual");
    }
  }
}

TEST_P(QuantizedDot, MultipliesNumbersOfAnySize) {
  for (const double size : {0.0, 1e-30, 1e-3, 1e6, 1e30})
    expect_product((values({2, 256}, 5, f32) * size).to(kCPU), {weight("Q4_K", 9, 256)}, {}, std::to_string(size));
  // Too small for a scale: they become 0.
  const Tensor y = quantized_linear(full({1, 32}, 1e-44, {f32, kVulkan}), weight("Q8_0", 4, 32).to(kVulkan));
  for (const float value : y.to_vector<float>()) EXPECT_LT(std::abs(value), 1e-40f);
}

TEST_P(QuantizedDot, KeepsNaNAndInfinityVisible) {
  std::vector<float> x(3 * 256, 0.5f);
  x[3] = NAN;
  x[256 + 9] = -std::numeric_limits<float>::infinity();
  for (const char* format : {"Q8_0", "Q4_K", "Q5_1", "Q2_K"}) {
    const std::vector<float> y =
        quantized_linear(from_vector(x, {3, 256}).to(kVulkan), weight(format, 4, 256).to(kVulkan)).to_vector<float>();
    for (std::size_t i = 0; i < y.size(); ++i) EXPECT_EQ(std::isfinite(y[i]), i >= 8) << format;
  }
}

TEST_P(QuantizedDot, GivesTheSameBitsCaptured) {
  const std::vector<QuantizedTensor> w = on_gpu({weight("Q4_K", 16, 256), weight("Q6_K", 16, 256, 2)});
  const Tensor norm = values({256}, 4, f32).to(kVulkan);
  auto step = capture([&](const Tensor& x) { return fused_linear(x, w, {.norm = norm}); }, {.device = kVulkan});
  for (unsigned turn = 1; turn < 5; ++turn) {
    const Tensor x = values({2, 256}, turn, f32).to(kVulkan);
    const std::vector<float> eager = fused_linear(x, w, {.norm = norm}).to_vector<float>();
    EXPECT_EQ(step(x).to_vector<float>(), eager);
  }
}

/// The values of a quantized row.
Tensor quantized_dot_numbers(const ActivationRows& rows) {
  const ActivationParts parts = parts_of(rows.data.to(kCPU));
  const std::int64_t m = parts.quants.size(0), k = parts.quants.size(1);
  return (parts.quants.to(f32).reshape({m, k / kActivationBlock, kActivationBlock}) * parts.scales.unsqueeze(-1))
      .reshape(rows.shape());
}

TEST_P(QuantizedDot, RoundsRowsAsTheReferenceDoes) {
  for (const DType dtype : {f32, f16, bf16}) {
    const Tensor x = values({5, 1056}, 3, dtype), norm = values({1056}, 4, dtype);
    const ActivationRows there = quantize_activations(x.to(kVulkan), norm.to(kVulkan)),
                         here = quantize_activations(x, norm);
    EXPECT_TRUE(there.normed);
    const ActivationParts a = parts_of(there.data.to(kCPU)), b = parts_of(here.data);
    expect_near(a.quants.to(f32), b.quants.to(f32), 1);
    expect_near(a.scales, b.scales, 0, 1e-6);
    expect_near(a.squares, b.squares, 0, 1e-5);
    expect_near(quantized_dot_numbers(there), x.to(f32) * norm.to(f32), 0.51 * 4 / 127);
  }
  EXPECT_THROW(quantize_activations(ones({2, 40}, kVulkan)), ShapeError);
  EXPECT_THROW(quantize_activations(ones({2, 64}, {i32, kVulkan})), DtypeError);
  EXPECT_THROW(quantize_activations(ones({2, 64}, kVulkan), ones({32}, kVulkan)), ShapeError);
}

TEST_P(QuantizedDot, GivesTheSameBitsOfRowsThatAreRounded) {
  for (std::int64_t rows : {1, 3, 8}) {
    for (const char* format : thinned<const char*>({"Q4_K", "Q6_K", "I2_S", "Q8_0"})) {
      const std::vector<QuantizedTensor> w = on_gpu({weight(format, 13, 256), weight(format, 13, 256, 2)});
      const Tensor x = values({rows, 256}, 5, f32).to(kVulkan), norm = values({256}, 4, f32).to(kVulkan);
      const std::optional<DType> read = activations_dtype(kVulkan, rows, w);
      EXPECT_EQ(read == i8, rows <= 2);
      if (read && read != i8) continue;  // three rows and more are in 16 bits on a Hopper GPU
      for (const Activation gate : {Activation::none, Activation::silu}) {
        const Tensor residual = values({rows, gate == Activation::none ? 26 : 13}, 9, f32).to(kVulkan);
        EXPECT_EQ(linear(quantize_activations(x, norm), w, {.gate = gate, .residual = residual}).y.to_vector<float>(),
                  fused_linear(x, w, {.norm = norm, .gate = gate, .residual = residual}).to_vector<float>());
        EXPECT_EQ(linear(quantize_activations(x), w, {.gate = gate}).y.to_vector<float>(),
                  fused_linear(x, w, {.gate = gate}).to_vector<float>());
      }
    }
  }
}

TEST_P(QuantizedDot, RoundsItsResultsForTheNextProduct) {
  struct Case {
    const char* format;
    std::int64_t k, n;
  };
  for (const Case& c : thinned<Case>({{"Q4_K", 256, 64}, {"Q8_0", 64, 32}, {"Q6_K", 4096, 96}, {"Q4_0", 8256, 32}})) {
    for (const std::int64_t rows : {1, 2, 5}) {
      for (const Activation gate : {Activation::none, Activation::silu}) {
        std::vector<QuantizedTensor> w{weight(c.format, c.n, c.k)};
        if (gate != Activation::none) w.push_back(weight(c.format, c.n, c.k, 2));
        const QuantizedTensor next = weight("Q8_0", 7, gate == Activation::none ? c.n : c.n);
        const Tensor x = values({rows, c.k}, 5, f32), norm = values({c.n}, 4, f32),
                     residual = values({rows, c.n}, 9, f32);
        LinearOptions options{.gate = gate, .residual = residual.to(kVulkan)};
        const ActivationRows given = quantize_activations(x.to(kVulkan));
        const Tensor plain = linear(given, on_gpu(w), options).y;
        options.next = i8;
        options.next_norm = norm.to(kVulkan);
        const LinearResult got = linear(given, on_gpu(w), options);
        const double size = plain.abs().max().item<double>();
        expect_near(got.y, plain, 1e-5 * size, 1e-5);
        // The quants are of y times the norm's weight, and the squares are those of y.
        const Tensor y = got.y.to(kCPU), wanted = y * norm;
        ASSERT_TRUE(got.next.normed);
        const ActivationParts parts = parts_of(got.next.data.to(kCPU));
        const Tensor blocks = wanted.reshape({rows, c.n / kActivationBlock, kActivationBlock});
        expect_near(parts.scales, amax(abs(blocks), {-1}) / 127.0, 1e-9 * size, 1e-6);
        expect_near(parts.squares, sum(square(y.reshape(blocks.shape())), {-1}), 1e-9 * size, 1e-5);
        const Tensor halves = parts.scales.unsqueeze(-1).expand(blocks.shape()).reshape({rows, c.n}) * 0.501;
        EXPECT_LE((abs(quantized_dot_numbers(got.next) - wanted) - halves).max().item<double>(), 0.0);
        // The chain is the matmul of the normed results.
        if (c.n % 64 != 0) continue;
        const Tensor end = linear(got.next, std::vector{next.to(kVulkan)}, {.eps = 1e-5}).y;
        const Tensor exact = fused_linear(got.y, next.to(kVulkan), {.norm = norm.to(kVulkan), .eps = 1e-5});
        expect_near(end, exact, 1e-4);
      }
    }
  }
}

TEST_P(QuantizedDot, RefusesWhatItCannotRound) {
  const std::vector<QuantizedTensor> w = on_gpu({weight("Q8_0", 40, 64)});
  const ActivationRows x = quantize_activations(values({2, 64}, 5, f32).to(kVulkan));
  EXPECT_THROW(linear(x, w, {.next = i8}), ShapeError);
  EXPECT_THROW(linear(x, on_gpu({weight("Q8_0", 8, 96)})), ShapeError);
  EXPECT_THROW(linear(x, w, {.residual = zeros({2, 7}, kVulkan)}), ShapeError);
  EXPECT_THROW(linear(x, w, {.gate = Activation::silu}), ShapeError);
  EXPECT_THROW(linear(ActivationRows(), w), Error);
  EXPECT_FALSE(activations_dtype(kCPU, 1, w));
  EXPECT_FALSE(activations_dtype(kVulkan, 3, w));
  EXPECT_FALSE(activations_dtype(kVulkan, 1, on_gpu({weight("F16", 8, 64)})));
  EXPECT_FALSE(activations_dtype(kVulkan, 1, on_gpu({weight("Q8_0", 8, 96)})));
  EXPECT_FALSE(activations_dtype(kVulkan, 1, on_gpu({weight("Q8_0", 8, 64), weight("Q4_0", 8, 64)}), true));
}

INSTANTIATE_TEST_SUITE_P(Device, QuantizedDot, testing::Values(kVulkan), device_type);

}  // namespace
}  // namespace etna
