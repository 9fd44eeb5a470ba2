#include <etna/tensor/ops/quantized/internal/cpu_kernels.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include <gtest/gtest.h>

#include <etna/tensor/ops.h>
#include <etna/tensor/ops/quantized/internal/quantized.h>
#include <etna/tensor/quant/quantized_tensor.h>

namespace etna {
namespace {

double relative_error(const Tensor& got, const Tensor& wanted) {
  const Tensor a = got.to(kCPU, f64), b = wanted.to(kCPU, f64);
  return std::sqrt((a - b).square().sum().item<double>() / std::max(1e-300, b.square().sum().item<double>()));
}

class EachFormat : public testing::TestWithParam<std::string> {
 protected:
  const quant::BlockFormat& format() const { return quant::format_named(GetParam()); }
  bool unquantized() const { return format().elements == 1; }
};

TEST_P(EachFormat, FewRowsAreNearTheExactProduct) {
  manual_seed(5);
  for (const char* target : {"AVX-512 VNNI", "AVX2", "portable"}) {
    if (!quantized::use_cpu_kernels(target)) continue;
    for (const std::int64_t columns : {256, 512, 1024 + 128}) {
      if (columns % format().elements != 0) continue;
      const QuantizedTensor w = quantize(randn({37, columns}), format());
      const Tensor exact = dequantize(w, f64);
      for (const std::int64_t rows : {1, 2, 3, 4, 7, 8, 11}) {
        const Tensor x = randn({rows, columns});
        const Tensor y = quantized_linear(x, w);
        EXPECT_LT(relative_error(y, matmul(x.to(f64), exact.t())), unquantized() ? 1e-5 : 1e-2)
            << target << ", " << rows << " rows of " << columns;
      }
    }
  }
  quantized::use_cpu_kernels(nullptr);
}

TEST_P(EachFormat, ManyRowsAreNearTheExactProduct) {
  manual_seed(6);
  const QuantizedTensor w = quantize(randn({1100, 512}), format());
  const Tensor x = randn({40, 512});
  const Tensor wanted = matmul(x.to(f64), dequantize(w, f64).t());
  for (const char* target : {"AVX-512 VNNI", "AVX2", "portable"}) {
    if (!quantized::use_cpu_kernels(target)) continue;
    const double many = relative_error(quantized_linear(x, w), wanted);
    EXPECT_LT(many, 5e-3) << target;
    if (quantized::cpu_kernels(format()).gemm == nullptr) continue;
    // Many rows are quantized more finely than few, or, on request, not at all.
    EXPECT_LT(many, relative_error(quantized_linear(x.slice(0, 0, 8), w), wanted.slice(0, 0, 8))) << target;
    quantized::set_quantizes_prompts(false);
    EXPECT_LT(relative_error(quantized_linear(x, w), wanted), 5e-3) << target;
    quantized::set_quantizes_prompts(true);
    EXPECT_LT(relative_error(quantized_linear(x, w), wanted), 4.7e-3) << target;
    quantized::set_quantizes_prompts(std::nullopt);
  }
  quantized::use_cpu_kernels(nullptr);
}

TEST_P(EachFormat, ManyRowsOfAnyNumberAreNearTheExactProduct) {
  manual_seed(16);
  for (const std::int64_t columns : {256, 1024 + 128, 2048}) {
    if (columns % format().elements != 0) continue;
    const QuantizedTensor w = quantize(randn({45, columns}), format());
    const Tensor x = randn({129, columns});
    const Tensor wanted = matmul(x.to(f64), dequantize(w, f64).t());
    for (const char* target : {"AVX-512 VNNI", "AVX2", "portable"}) {
      if (!quantized::use_cpu_kernels(target)) continue;
      for (const std::int64_t rows : {12, 16, 31, 33, 129}) {
        EXPECT_LT(relative_error(quantized_linear(x.slice(0, 0, rows), w), wanted.slice(0, 0, rows)), 5e-3)
            << target << ", " << rows << " rows of " << columns;
      }
    }
  }
  quantized::use_cpu_kernels(nullptr);
}

TEST_P(EachFormat, ManyRowsKeepNaNInfinityAndZero) {
  const QuantizedTensor w = quantize(ones({3, 256}), format());
  for (const char* target : {"AVX-512 VNNI", "AVX2", "portable"}) {
    if (!quantized::use_cpu_kernels(target)) continue;
    for (const double bad : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(),
                             -std::numeric_limits<double>::infinity()}) {
      Tensor x = zeros({20, 256});
      x.mutable_data<float>()[300] = static_cast<float>(bad);
      const std::vector<double> y = quantized_linear(x, w).to_vector<double>();
      for (std::size_t i = 0; i < y.size(); ++i) {
        if (i / 3 == 1)
          EXPECT_FALSE(std::isfinite(y[i])) << target;
        else
          EXPECT_EQ(y[i], 0) << target;
      }
    }
  }
  quantized::use_cpu_kernels(nullptr);
}

TEST_P(EachFormat, RowsOfBlocksOneAfterTheOther) {
  const std::int64_t columns = 2 * std::max<std::int64_t>(32, format().elements);
  manual_seed(7);
  const QuantizedTensor w = quantize(randn({5, columns}), format());
  const Tensor all = dequantize(w);
  EXPECT_TRUE(quantized_embedding(from_vector(std::vector<std::int32_t>{4, 0, 2}), w)
                  .equal(index_select(all, 0, from_vector(std::vector<std::int64_t>{4, 0, 2}))));
}

TEST_P(EachFormat, NaNAndInfinityComeThrough) {
  const QuantizedTensor w = quantize(ones({3, 256}), format());
  for (const double bad : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    Tensor x = ones({2, 256});
    x.mutable_data<float>()[300] = static_cast<float>(bad);
    const std::vector<double> y = quantized_linear(x, w).to_vector<double>();
    for (int i = 0; i < 3; ++i) {
      EXPECT_NEAR(y[static_cast<std::size_t>(i)], 256, 4);
      EXPECT_FALSE(std::isfinite(y[static_cast<std::size_t>(3 + i)]));
    }
  }
}

TEST_P(EachFormat, ZerosAreExact) {
  const QuantizedTensor w = quantize(zeros({3, 256}), format());
  // The smallest scale of MXFP4 is above 0.
  EXPECT_LT(quantized_linear(randn({2, 256}), w).abs().max().item<double>(), 1e-37);
  EXPECT_EQ(quantized_linear(zeros({2, 256}), quantize(randn({3, 256}), format())).abs().max().item<double>(), 0);
}

INSTANTIATE_TEST_SUITE_P(QuantizedLinear, EachFormat,
                         testing::Values("F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q2_K", "Q3_K",
                                         "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS", "MXFP4", "NVFP4", "TQ1_0", "TQ2_0",
                                         "I2_S", "INT8_64", "INT8_128", "INT8_ZP_32", "INT8_ZP_64", "INT8_ZP_128",
                                         "INT4_64", "INT4_128", "INT4_ZP_32", "INT4_ZP_64", "INT4_ZP_128"));

TEST(QuantizedLinear, TakesWeightsPerChannel) {
  manual_seed(15);
  // Channels of different sizes, and off 0, so that they need their own scales and zero points.
  const Tensor w = (randn({24, 384}) + 0.7) * pow(10.0, arange(24, {f32}).unsqueeze(1) / 8.0);
  for (const char* name : {"INT8_128", "INT8_ZP_64", "INT4_64", "INT4_ZP_128"}) {
    const QuantizedTensor q = quantize_per_channel(w, quant::format_named(name));
    const Tensor exact = dequantize(q, f64);
    for (const char* target : {"AVX-512 VNNI", "AVX2", "portable"}) {
      if (!quantized::use_cpu_kernels(target)) continue;
      for (const std::int64_t rows : {1, 9, 20}) {
        const Tensor x = randn({rows, 384});
        EXPECT_LT(relative_error(quantized_linear(x, q), matmul(x.to(f64), exact.t())), 2e-2) << name << " " << target;
      }
    }
    EXPECT_LT(relative_error(exact, w), std::string_view(name).starts_with("INT8") ? 0.012 : 0.2) << name;
  }
  quantized::use_cpu_kernels(nullptr);
}

TEST(QuantizedLinear, FusesNormGateBiasAndResidual) {
  manual_seed(8);
  const auto& q8 = quant::format_named("Q8_0");
  const std::vector<QuantizedTensor> two = {quantize(randn({24, 64}), q8),
                                            quantize(randn({24, 64}), quant::format_named("Q4_0"))};
  const Tensor norm = rand({64}) + 0.5, bias = randn({48}), residual = randn({3, 24});
  for (const Activation gate : {Activation::silu, Activation::gelu_tanh, Activation::relu_squared}) {
    const Tensor x = randn({3, 64}) * 3.0;
    const Tensor normed = rms_norm(x, norm, 1e-5);
    const Tensor g = linear(normed, dequantize(two[0]), bias.slice(0, 0, 24)),
                 u = linear(normed, dequantize(two[1]), bias.slice(0, 24, 48));
    const Tensor active = gate == Activation::silu        ? silu(g)
                          : gate == Activation::gelu_tanh ? gelu_tanh(g)
                                                          : relu_squared(g);
    const Tensor y =
        quantized::linear(x, two, {.bias = bias, .norm = norm, .eps = 1e-5, .gate = gate, .residual = residual}).y;
    EXPECT_LT(relative_error(y, active * u + residual), 2e-2);
  }
  const Tensor x = randn({3, 64});
  const Tensor both = quantized_linear(x, two, {.bias = bias});
  EXPECT_TRUE(both.slice(1, 0, 24).equal(quantized_linear(x, two[0], {.bias = bias.slice(0, 0, 24)})));
  EXPECT_TRUE(both.slice(1, 24, 48).equal(quantized_linear(x, two[1], {.bias = bias.slice(0, 24, 48)})));
}

TEST(QuantizedLinear, IsDifferentiableInItsInput) {
  manual_seed(9);
  const QuantizedTensor w = quantize(randn({8, 64}), quant::format_named("Q5_1"));
  Tensor x = randn({2, 64}).requires_grad_();
  quantized_linear(x, w).sum().backward();
  EXPECT_LT(relative_error(x.grad(), dequantize(w).sum({0}).unsqueeze(0).expand({2, 64})), 1e-6);
}

TEST(QuantizedLinear, RefusesWhatDoesNotFit) {
  const auto& q8 = quant::format_named("Q8_0");
  const QuantizedTensor w = quantize(ones({4, 64}), q8);
  EXPECT_THROW(quantized_linear(ones({2, 32}), w), ShapeError);
  EXPECT_THROW(quantized_linear(arange(64), w), DtypeError);
  EXPECT_THROW(quantized_linear(ones({2, 64}), w, {.bias = ones({3})}), ShapeError);
  EXPECT_THROW(quantized::linear(ones({2, 64}), std::span(&w, 1), {.residual = ones({2, 5})}), ShapeError);
  EXPECT_THROW(quantized_linear(ones({2, 64}), std::vector<QuantizedTensor>{}), ShapeError);
  EXPECT_THROW(quantized::linear(ones({2, 64}), std::span(&w, 1), {.gate = Activation::silu}), ShapeError);
  EXPECT_THROW(quantize(ones({4, 33}), q8), ShapeError);
  EXPECT_THROW(quantized_embedding(from_vector(std::vector<std::int32_t>{4}), w), IndexError);
  EXPECT_THROW(QuantizedTensor(q8, {4, 64}, zeros({5}, u8)), ShapeError);
}

}  // namespace
}  // namespace etna
