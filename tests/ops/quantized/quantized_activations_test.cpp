#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include <etna/device/kernel.h>
#include <etna/tensor/capture.h>
#include <etna/tensor/internal/overrides.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/quantized/internal/gpu.h>
#include <nn/on_device.h>
#include <ops/quantized/quantized_exact.h>

// Activations that matmuls pass on in f16 or bf16, as on a GPU with matrix units.
namespace etna {
namespace {

using namespace quantized;

class QuantizedActivations : public OnDevice {
 protected:
  const Override<bool> sixteen_bits_{&Overrides::sixteen_bits, true};
};

/// The values of activations, in f32 on the host.
Tensor quantized_activations_numbers(const ActivationRows& rows) {
  const Tensor x = rows.data.to(kCPU).to(f32).reshape(rows.shape());
  return rows.factor.defined() ? x * rows.factor.to(kCPU) : x;
}

double digits(DType dtype) { return dtype == f16 ? 1.0 / 2048 : 1.0 / 256; }

/// From three rows on if there is a kernel for so few.
TEST_P(QuantizedActivations, AreTakenForNineToThirtyTwoRows) {
  for (const char* format : {"F16", "Q4_K", "BF16"}) {
    const std::vector<QuantizedTensor> w = on_gpu({weight(format, 8, 256)});
    const DType wanted = std::string_view(format) == "F16" ? f16 : bf16;
    for (const std::int64_t rows : {33, 512}) EXPECT_FALSE(activations_dtype(kVulkan, rows, w)) << rows;
    const bool few = has_skinny_gemm(kVulkan, wanted, block_matrix(w[0].format(), w[0].blocks(), 8, 256));
    for (const std::int64_t rows : {3, 8})
      EXPECT_EQ(activations_dtype(kVulkan, rows, w), few ? std::optional(wanted) : std::nullopt) << rows;
    for (const std::int64_t rows : {9, 32}) EXPECT_EQ(activations_dtype(kVulkan, rows, w), wanted) << rows;
  }
  EXPECT_FALSE(activations_dtype(kVulkan, 9, on_gpu({weight("F32", 8, 256)})));
  EXPECT_FALSE(activations_dtype(kCPU, 9, std::vector{weight("F16", 8, 256)}));
  EXPECT_EQ(activations_dtype(kVulkan, 9, on_gpu({weight("F16", 8, 256), weight("Q8_0", 8, 256)})), bf16);
}

TEST_P(QuantizedActivations, HaveTheDigitsOfTheirDtype) {
  for (const DType dtype : {f16, bf16}) {
    for (const std::int64_t columns : {7, 50, 1030}) {
      for (const double size : {1.0, 1e-6, 1e30}) {
        const Tensor x = values({3, 5, columns}, 3, f32) * size, norm = values({columns}, 4, f32) * 3.0;
        const double relative = 1.01 * digits(dtype), least = size * 1e-7;
        expect_near(quantized_activations_numbers(quantize_activations(x.to(kVulkan), {}, dtype)), x, least, relative);
        if (size > 1) continue;  // squares overflow
        expect_near(quantized_activations_numbers(quantize_activations(x.to(kVulkan), norm.to(kVulkan), dtype, 0)),
                    rms_norm(x, norm, 0), 1e-5, relative);
      }
    }
    // Activations that already have the dtype are not copied.
    const Tensor given = values({2, 8}, 3, dtype).to(kVulkan);
    EXPECT_EQ(quantize_activations(given, {}, dtype).data.storage(), given.storage());
    EXPECT_FALSE(quantize_activations(given, {}, dtype).factor.defined());
  }
}

TEST_P(QuantizedActivations, KeepWhatIsNoNumberInItsRow) {
  Tensor x = values({3, 64}, 3, f32);
  x.mutable_data<float>()[70] = std::numeric_limits<float>::quiet_NaN();
  const Tensor norm = ones({64}, kVulkan);
  for (const DType dtype : {f16, bf16}) {
    for (const Tensor& by : {Tensor(), norm}) {
      const Tensor y = quantized_activations_numbers(quantize_activations(x.to(kVulkan), by, dtype));
      EXPECT_FALSE(isfinite(y.slice(0, 1, 2)).all().item<bool>());
      for (const std::int64_t row : {0, 2}) {
        const Tensor own = x.slice(0, row, row + 1);
        expect_near(y.slice(0, row, row + 1), by.defined() ? rms_norm(own, norm.to(kCPU), 1e-5) : own, 1e-6,
                    1.01 * digits(dtype));
      }
    }
    const Tensor zero = quantized_activations_numbers(quantize_activations(zeros({2, 32}, kVulkan), {}, dtype));
    EXPECT_EQ(zero.abs().max().item<float>(), 0);
  }
}

/// With few results, split-K is used, so both paths to the norm that follows are tested.
TEST_P(QuantizedActivations, GiveWhatTheProductGives) {
  struct Case {
    const char* format;
    std::int64_t k, n;
  };
  for (const Case& c : {Case{"F16", 2048, 70}, {"F16", 64, 8192}, {"Q8_0", 2048, 64}, {"Q4_K", 256, 33}}) {
    for (const Activation gate : {Activation::none, Activation::silu}) {
      std::vector<QuantizedTensor> w{weight(c.format, c.n, c.k)};
      if (gate != Activation::none) w.push_back(weight(c.format, c.n, c.k, 2));
      w = on_gpu(w);
      const std::int64_t rows = 11;
      const DType dtype = *activations_dtype(kVulkan, rows, w);
      const Tensor x = values({rows, c.k}, 5, f32).to(kVulkan), norm = values({c.k}, 4, f32).to(kVulkan),
                   next = values({c.n}, 6, f32).to(kVulkan), residual = values({rows, c.n}, 9, f32).to(kVulkan),
                   bias = values({c.n * std::ssize(w)}, 8, f32).to(kVulkan);
      LinearOptions options{.bias = bias, .gate = gate, .residual = residual, .dtype = f32};
      const ActivationRows given = quantize_activations(x, norm, dtype, 1e-6);
      const Tensor plain = linear(given, w, options).y;
      const Tensor same =
          fused_linear(x, w, {.bias = bias, .norm = norm, .eps = 1e-6, .gate = gate, .residual = residual});
      const double size = same.abs().max().item<double>();
      expect_near(plain, same, 1e-5 * size, 1e-5);
      options.next = dtype;
      options.next_norm = next;
      options.next_eps = 1e-4;
      const LinearResult chained = linear(given, w, options);
      expect_near(chained.y, same, 1e-5 * size, 1e-5);
      expect_near(quantized_activations_numbers(chained.next), rms_norm(same, next, 1e-4), 1e-5, 1.1 * digits(dtype));
      // Without a norm.
      options.next_norm = Tensor();
      const LinearResult bare = linear(given, w, options);
      expect_near(bare.y, same, 1e-5 * size, 1e-5);
      expect_near(quantized_activations_numbers(bare.next), same, 1e-5 * size, 1.1 * digits(dtype));
    }
  }
}

/// Results of any magnitude; the largest determines the power of two.
TEST_P(QuantizedActivations, HoldGatedResultsOfAnySize) {
  const std::vector<QuantizedTensor> w = on_gpu({weight("F16", 80, 64), weight("F16", 80, 64, 2)});
  for (const double size : {0.0, 1e-3, 1e4, 1e12}) {
    const Tensor x = values({10, 64}, 5, f32) * size, there = x.to(kVulkan);
    const LinearResult y = linear(quantize_activations(there, {}, f16), w, {.gate = Activation::silu, .next = f16});
    ASSERT_TRUE(y.next.defined());
    EXPECT_EQ(y.next.data.dtype(), f16);
    const Tensor wanted = y.y.to(kCPU);
    const auto most = wanted.abs().max().item<double>();
    expect_near(quantized_activations_numbers(y.next), wanted, most / (1 << 24), 1.01 * digits(f16));
    expect_near(wanted, fused_linear(there, w, {.gate = Activation::silu}).to(kCPU), 1e-5 * most, 1e-5);
  }
}

TEST_P(QuantizedActivations, AreCaptured) {
  const std::vector<QuantizedTensor> w = on_gpu({weight("F16", 64, 2048)}), behind = on_gpu({weight("F16", 9, 64)});
  const Tensor norm = values({2048}, 4, f32).to(kVulkan), next = values({64}, 6, f32).to(kVulkan);
  const auto chain = [&](const Tensor& x) {
    const LinearResult y = linear(quantize_activations(x, norm, f16), w, {.next = f16, .next_norm = next});
    return linear(y.next, behind).y;
  };
  auto step = capture(chain);
  for (std::uint64_t turn = 1; turn < 5; ++turn) {
    const Tensor x = values({12, 2048}, turn, f32).to(kVulkan);
    const std::vector<float> eager = chain(x).to_vector<float>();
    EXPECT_EQ(step(x).to_vector<float>(), eager);
  }
}

TEST_P(QuantizedActivations, RefuseWhatDoesNotFit) {
  const Tensor x = values({9, 64}, 5, f32).to(kVulkan);
  const ActivationRows rows = quantize_activations(x, {}, f16);
  const std::vector<QuantizedTensor> w = on_gpu({weight("F16", 8, 64)});
  EXPECT_THROW(quantize_activations(x, ones({32}, kVulkan), f16), ShapeError);
  EXPECT_THROW(quantize_activations(x, {}, f32), DtypeError);
  EXPECT_THROW(quantize_activations(ones({9, 64}, {i32, kVulkan}), {}, f16), DtypeError);
  EXPECT_THROW(linear(rows, on_gpu({weight("F16", 8, 32)})), ShapeError);
  EXPECT_THROW(linear(rows, w, {.bias = ones({7}, kVulkan)}), ShapeError);
  EXPECT_THROW(linear(rows, w, {.residual = ones({9, 7}, kVulkan)}), ShapeError);
  EXPECT_THROW(linear(rows, w, {.next = f16, .next_norm = ones({9}, kVulkan)}), ShapeError);
}

INSTANTIATE_TEST_SUITE_P(Device, QuantizedActivations, testing::Values(kVulkan), device_type);

}  // namespace
}  // namespace etna
