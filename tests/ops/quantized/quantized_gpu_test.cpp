#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <random>

#include <gmock/gmock.h>

#include <etna/autograd/autograd.h>
#include <etna/tensor/capture.h>
#include <etna/tensor/internal/overrides.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/quantized/internal/gpu.h>
#include <etna/tensor/quant/quantized_tensor.h>
#include <nn/on_device.h>
#include <ops/quantized/quantized_exact.h>
#include <runner/run_tests.h>

// Weights in block formats on a GPU: decoded rows are bit-identical; matmuls are compared with sums in f64.
namespace etna {
namespace {

using namespace quantized;
using numerics::values;
using quant::BlockFormat;

/// Blocks of random bytes, so that every quant and scale occurs, NaN and infinity too.
QuantizedTensor random_blocks(const BlockFormat& format, Shape shape, unsigned seed) {
  std::mt19937 bits(seed);
  const auto bytes = static_cast<std::int64_t>(quant::storage_bytes(format, numel(shape)));
  std::vector<std::uint8_t> blocks(static_cast<std::size_t>(bytes));
  for (std::uint8_t& b : blocks) b = static_cast<std::uint8_t>(bits());
  if (format.tail != 0 && bytes > 0) {
    const float scale = 0.37f;
    std::memcpy(blocks.data() + blocks.size() - format.tail, &scale, sizeof scale);
  }
  return {format, shape, from_vector(blocks, {bytes})};
}

void expect_same_bits(const Tensor& got, const Tensor& wanted, std::string_view what) {
  ASSERT_EQ(got.shape(), wanted.shape()) << what;
  const std::vector<float> a = got.to(kCPU, f32).to_vector<float>(), b = wanted.to(f32).to_vector<float>();
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) && std::isnan(b[i])) continue;
    ASSERT_EQ(std::bit_cast<std::uint32_t>(a[i]), std::bit_cast<std::uint32_t>(b[i]))
        << what << " element " << i << ": " << a[i] << " " << b[i];
  }
}

class QuantizedGpu : public OnDevice {
 protected:
  /// The rounding error of many f32 rows on the device's matrix units; 0 elsewhere.
  static double rounding_of_operands(const Tensor& x, const std::vector<QuantizedTensor>& weights) {
    if (x.dtype() != f32 || x.numel() / x.size(-1) <= quantized::kMostRows) return 0;
    std::vector<const BlockFormat*> formats;
    for (const QuantizedTensor& w : weights) formats.push_back(&w.format());
    const DType dtype = quantized::gemm_dtype(kVulkan, x.numel(), formats);
    return dtype == f32 ? 0 : dtype == f16 ? 1e-3 : 8e-3;
  }
  /// @param relative to the magnitudes of the addends @param rounding the error of rounding to the dtype, relative to y
  static void expect_product(const Tensor& x, const std::vector<QuantizedTensor>& weights, const LinearOptions& options,
                             double relative, double rounding, std::string_view what) {
    const Tensor y = fused_linear(x.to(kVulkan), on_gpu(weights), on_gpu(options));
    ASSERT_EQ(y.dtype(), x.dtype());
    const Exact e = exact(x, weights, options);
    relative = std::max(relative, rounding_of_operands(x, weights));
    const std::vector<double> got = y.to_vector<double>();
    ASSERT_EQ(got.size(), e.y.size()) << what;
    for (std::size_t i = 0; i < got.size(); ++i)
      ASSERT_NEAR(got[i], e.y[i], relative * e.magnitude[i] + rounding * std::abs(e.y[i]) + 1e-30)
          << what << " element " << i;
  }

 private:
  const Override<bool> floats_{&Overrides::quantized_activations,
                               false};  // quantized_dot_test.cpp is about the other kernel
};

TEST_P(QuantizedGpu, DecodesEveryFormatBitForBit) {
  for (const BlockFormat* format : weight_formats()) {
    const QuantizedTensor w = random_blocks(*format, {3, 512}, 7), there = w.to(kVulkan);
    for (DType dtype : thinned<DType>({f32, f16, bf16}, 3))
      expect_same_bits(dequantize(there, dtype), dequantize(w, dtype), format->name);
  }
}

TEST_P(QuantizedGpu, DecodesEveryPowerOfMxfp4) {
  std::vector<std::uint8_t> blocks;
  for (int e = 0; e < 256; ++e) {
    blocks.push_back(static_cast<std::uint8_t>(e));
    for (int j = 0; j < 16; ++j) blocks.push_back(static_cast<std::uint8_t>(j | (15 - j) << 4));
  }
  const QuantizedTensor w(quant::format_named("MXFP4"), {256, 32},
                          from_vector(blocks, {static_cast<std::int64_t>(blocks.size())}));
  expect_same_bits(dequantize(w.to(kVulkan)), dequantize(w), "MXFP4");
}

TEST_P(QuantizedGpu, DecodesEveryScaleOfNvfp4) {
  std::vector<std::uint8_t> blocks;
  for (int scale = 0; scale < 256; scale += 4) {
    for (int sub = 0; sub < 4; ++sub) blocks.push_back(static_cast<std::uint8_t>(scale + sub));
    for (int j = 0; j < 32; ++j) blocks.push_back(static_cast<std::uint8_t>(j % 16 | (15 - j % 16) << 4));
  }
  const QuantizedTensor w(quant::format_named("NVFP4"), {64, 64},
                          from_vector(blocks, {static_cast<std::int64_t>(blocks.size())}));
  expect_same_bits(dequantize(w.to(kVulkan)), dequantize(w), "NVFP4");
}

TEST_P(QuantizedGpu, DecodesPlainRowsOfAnyLength) {
  for (const char* name : {"F32", "F16", "BF16"}) {
    for (std::int64_t columns : {1, 7, 16, 18, 37}) {
      const QuantizedTensor w = weight(name, 5, columns);
      expect_same_bits(dequantize(w.to(kVulkan), f16), dequantize(w, f16), name);
    }
  }
}

TEST_P(QuantizedGpu, ReadsBlocksAtAnyAddress) {
  for (const BlockFormat* format : weight_formats()) {
    const QuantizedTensor w = random_blocks(*format, {2, 256}, 3), there = w.to(kVulkan);
    for (std::int64_t bytes : {1, 3})
      expect_same_bits(dequantize(misaligned(there, bytes)), dequantize(w), format->name);
  }
}

/// Fields of blocks with an even number of bytes begin 0, 2, 4 and 6 bytes after multiples of eight.
TEST_P(QuantizedGpu, ReadsBlocksAtEvenAddresses) {
  for (const char* name : {"Q8_0", "Q6_K", "Q4_K", "Q5_1"}) {
    const QuantizedTensor w = random_blocks(quant::format_named(name), {2, 256}, 3), there = w.to(kVulkan);
    for (std::int64_t bytes : {2, 4, 6, 8}) expect_same_bits(dequantize(misaligned(there, bytes)), dequantize(w), name);
  }
}

TEST_P(QuantizedGpu, LooksUpRows) {
  const Tensor index = from_vector<std::int64_t>({4, 0, 4, 2, 1, 3}, {2, 3});
  for (const char* name : {"F16", "Q8_0", "Q4_K", "I2_S", "IQ3_S"}) {
    const QuantizedTensor w = random_blocks(quant::format_named(name), {5, 256}, 11);
    expect_same_bits(quantized_embedding(index.to(kVulkan), w.to(kVulkan)), quantized_embedding(index, w), name);
    expect_same_bits(quantized_embedding(index.to(i32).to(kVulkan), w.to(kVulkan), bf16),
                     quantized_embedding(index, w, bf16), name);
  }
  const QuantizedTensor w = weight("Q4_K", 5, 256).to(kVulkan);
  EXPECT_EQ(quantized_embedding(empty({0}, {i64, kVulkan}), w).shape(), (Shape{0, 256}));
  EXPECT_EQ(dequantize(weight("Q4_K", 0, 256).to(kVulkan)).shape(), (Shape{0, 256}));
}

TEST_P(QuantizedGpu, ReportsAnIndexOutsideOfTheTable) {
  const QuantizedTensor w = weight("Q8_0", 5, 32).to(kVulkan);
  for (std::int64_t bad : {-1, 5}) {
    EXPECT_THROW(
        {
          const Tensor index = from_vector<std::int64_t>({0, bad}, {2}).to(kVulkan);
          quantized_embedding(index, w).to(kCPU);
        },
        IndexError);
  }
}

TEST_P(QuantizedGpu, MultipliesEveryFormatWithFewRows) {
  std::int64_t rows = 1;
  for (const BlockFormat* format : weight_formats()) {
    expect_product(values({rows, 512}, 4, f32), {weight(format->name, 13, 512)}, {}, 1e-6, 1e-6, format->name);
    rows = rows == 1 ? 3 : 1;
  }
}

TEST_P(QuantizedGpu, TakesOneToEightRowsOfEachDtype) {
  for (DType dtype : {f32, f16, bf16}) {
    for (std::int64_t rows : {1, 2, 3, 5, 8}) {
      const Tensor x = values({rows, 256}, 5, dtype);
      const double rounding = dtype == f32 ? 1e-6 : dtype == f16 ? 5e-4 : 4e-3;
      expect_product(x, {weight("Q4_K", 3, 256)}, {}, 1e-6, rounding, name(dtype));
    }
  }
}

TEST_P(QuantizedGpu, TakesLongAndShortRows) {
  for (std::int64_t k : {32, 96, 2080, 5632}) {
    expect_product(values({1, k}, 6, f32), {weight("Q8_0", 3, k)}, {}, 1e-6, 1e-6, std::to_string(k));
    expect_product(values({2, k}, 6, f32), {weight("Q4_0", 1, k)}, {}, 1e-6, 1e-6, std::to_string(k));
  }
  for (std::int64_t k : {1, 5, 18, 100}) {
    expect_product(values({3, k}, 6, f32), {weight("BF16", 4, k)}, {}, 1e-6, 1e-6, std::to_string(k));
    expect_product(values({1, k}, 6, f32), {weight("F32", 4, k)}, {.norm = values({k}, 2, f32)}, 1e-6, 1e-6,
                   std::to_string(k));
  }
}

TEST_P(QuantizedGpu, MultipliesWithThreeFormatsAtOnce) {
  const std::vector<QuantizedTensor> mixed{weight("Q4_K", 11, 256), weight("Q6_K", 3, 256, 2),
                                           weight("F16", 6, 256, 3)};
  const std::vector<QuantizedTensor> alike{weight("Q4_0", 11, 256), weight("Q4_0", 3, 256, 2),
                                           weight("Q4_0", 6, 256, 3)};
  const Tensor x = values({2, 256}, 5, f32);
  const LinearOptions options{
      .bias = values({20}, 3, f32), .norm = values({256}, 4, f32), .residual = values({2, 20}, 9, f32)};
  const std::vector<QuantizedTensor> points{weight("IQ2_S", 11, 256), weight("Q4_0", 3, 256, 2),
                                            weight("IQ3_XXS", 6, 256, 3)};
  for (const auto& weights : {mixed, alike, points}) {
    const auto before = gpu::queue_stats(kVulkan).dispatches;
    const Tensor y = fused_linear(x.to(kVulkan), on_gpu(weights), on_gpu(options));
    EXPECT_EQ(gpu::queue_stats(kVulkan).dispatches - before, 1u);
    expect_product(x, weights, options, 1e-6, 1e-6, "three");
    expect_product(x, {weights[1], weights[0]}, {.norm = options.norm}, 1e-6, 1e-6, "two");
  }
}

TEST_P(QuantizedGpu, GatesTwoWeights) {
  for (Activation gate : {Activation::silu, Activation::gelu_tanh, Activation::relu_squared}) {
    for (std::int64_t rows :
         gate == Activation::silu ? std::vector<std::int64_t>{1, 3, 12} : std::vector<std::int64_t>{2}) {
      LinearOptions options{.norm = values({256}, 4, f32) * 0.2, .gate = gate};
      const std::vector<QuantizedTensor> weights{weight("Q4_K", 7, 256), weight("Q6_K", 7, 256, 2)};
      expect_product(values({rows, 256}, 5, f32), weights, options, 4e-6, 4e-6, "plain");
      options.bias = values({14}, 8, f32);
      options.residual = values({rows, 7}, 9, f32);
      expect_product(values({rows, 256}, 5, f32), weights, options, 4e-6, 4e-6, "with bias and residual");
    }
  }
}

TEST_P(QuantizedGpu, TakesOperandsOfOtherDtypes) {
  const LinearOptions options{
      .bias = values({5}, 3, bf16), .norm = values({64}, 4, f16), .residual = values({2, 5}, 9, bf16)};
  expect_product(values({2, 64}, 5, f32), {weight("Q8_0", 5, 64)}, options, 1e-6, 1e-6, "f32");
  expect_product(values({2, 64}, 5, f16), {weight("Q8_0", 5, 64)}, options, 1e-6, 5e-4, "f16");
}

TEST_P(QuantizedGpu, MultipliesFromAnyAddress) {
  const Tensor x = values({2, 257}, 5, f32);
  for (const char* format : {"F16", "F32", "Q4_K", "Q8_0", "MXFP4", "I2_S"}) {
    const QuantizedTensor w = weight(format, 3, 256);
    for (std::int64_t bytes : {1, 2, 4}) {
      const Tensor y = quantized_linear(x.to(kVulkan).slice(1, 1, 257), misaligned(w.to(kVulkan), bytes));
      const Exact e = exact(x.slice(1, 1, 257).contiguous(), {w}, {});
      const std::vector<double> got = y.to_vector<double>();
      for (std::size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], e.y[i], 1e-6 * e.magnitude[i]) << format;
    }
  }
}

TEST_P(QuantizedGpu, NeedsNoSubgroupSums) {
  const Tensor x = values({3, 512}, 5, f32);
  const LinearOptions options{.norm = values({512}, 4, f32)};
  const Override scope(&Overrides::subgroups, false);
  expect_product(x, {weight("Q4_K", 9, 512)}, options, 1e-6, 1e-6, "one");
  expect_product(x, {weight("Q8_0", 9, 512), weight("F16", 2, 512)}, options, 1e-6, 1e-6, "two");
}

TEST_P(QuantizedGpu, MultipliesManyRows) {
  for (DType dtype : {f32, f16, bf16}) {
    const Tensor x = values({37, 256}, 5, dtype);
    const double relative = dtype == f32 ? 1e-6 : dtype == f16 ? 1e-3 : 8e-3, rounding = dtype == f32 ? 1e-6 : relative;
    for (const char* format : {"Q4_K", "F32", "F16", "BF16"}) {
      const std::vector<QuantizedTensor> weights{weight(format, 9, 256), weight("Q8_0", 4, 256, 3)};
      expect_product(x, weights, {}, relative, rounding, format);
      const LinearOptions options{
          .bias = values({13}, 3, dtype), .norm = values({256}, 4, dtype), .residual = values({37, 13}, 9, dtype)};
      expect_product(x, weights, options, 2 * relative, rounding, format);
    }
  }
}

TEST_P(QuantizedGpu, RoundsManyRowsForMatrixUnits) {
  const Override scope(&Overrides::sixteen_bits, true);
  const Tensor x = values({37, 256}, 5, f32);
  for (const auto& [format, relative] :
       {std::pair{"Q4_K", 8e-3}, {"BF16", 8e-3}, {"MXFP4", 8e-3}, {"F16", 1e-3}, {"F32", 1e-6}}) {
    const std::vector<QuantizedTensor> weights{weight(format, 9, 256), weight(format, 4, 256, 3)};
    expect_product(x, weights, {}, relative, 1e-6, format);
    const LinearOptions options{
        .bias = values({13}, 3, f32), .norm = values({256}, 4, f32), .residual = values({37, 13}, 9, f32)};
    expect_product(x, weights, options, relative, 1e-6, format);
    const LinearOptions gated{.gate = Activation::silu, .residual = values({37, 9}, 9, f32)};
    expect_product(x, {weights[0], weight("F16", 9, 256, 4)}, gated, std::max(8e-3, relative), 1e-6, format);
  }
}

TEST_P(QuantizedGpu, ScalesRowsThatF16CannotHold) {
  const Override scope(&Overrides::sixteen_bits, true);
  const std::vector<QuantizedTensor> w{weight("F16", 9, 250)};
  for (const double size : {0.0, 1e-20, 3.0, 1e6, 1e30})
    expect_product((values({37, 250}, 5, f32) * size).to(kCPU), w, {}, 1e-3, 1e-6, std::to_string(size));
  // Bytes after the numbers have no effect.
  const Tensor room = full({37 * 250 + 6}, 1e30, {f32, kVulkan});
  room.slice(0, 0, 37 * 250).copy_((values({37, 250}, 5, f32) * 1e-20).reshape({-1}));
  const Tensor part = room.slice(0, 0, 37 * 250).reshape({37, 250});
  const Exact small = exact(part.to(kCPU), w, {});
  expect_near(quantized_linear(part, w[0].to(kVulkan)) * 1e20, from_vector(small.y, {37, 9}) * 1e20, 0.02);
  // A row of infinities or NaN affects no other.
  std::vector<float> x = values({20, 250}, 5, f32).to_vector<float>();
  x[3] = NAN;
  x[250 + 9] = -INFINITY;
  x[500] = 3e38f;
  const std::vector<float> y =
      quantized_linear(from_vector(x, {20, 250}).to(kVulkan), w[0].to(kVulkan)).to_vector<float>();
  for (std::size_t i = 0; i < 9; ++i) {
    EXPECT_TRUE(std::isnan(y[i]));
    EXPECT_FALSE(std::isfinite(y[9 + i]));
  }
  for (std::size_t i = 27; i < y.size(); ++i) EXPECT_TRUE(std::isfinite(y[i])) << i;
}

TEST_P(QuantizedGpu, NormsRowsForF16WithoutOverflow) {
  const Override scope(&Overrides::sixteen_bits, true);
  for (const double size : {0.0, 1e-20, 3.0, 1e6, 1e30}) {
    for (std::int64_t k : {250, 256, 1031}) {
      const Tensor norm = (values({k}, 2, f32) * size).to(kCPU);
      expect_product(values({37, k}, 5, f32), {weight("F16", 9, k)}, {.norm = norm}, 1e-3, 1e-6, std::to_string(size));
      expect_product((values({37, k}, 5, f32) * 1e15).to(kCPU), {weight("BF16", 9, k)}, {.norm = norm}, 8e-3, 1e-6,
                     std::to_string(size));
    }
  }
  // A row of infinities or NaN affects no other; a norm weight of them affects all.
  std::vector<float> x = values({20, 256}, 5, f32).to_vector<float>();
  x[3] = NAN;
  x[256 + 9] = INFINITY;
  const QuantizedTensor w = weight("F16", 9, 256).to(kVulkan);
  const Tensor given = from_vector(x, {20, 256}).to(kVulkan);
  const std::vector<float> y = fused_linear(given, w, {.norm = values({256}, 2, f32).to(kVulkan)}).to_vector<float>();
  for (std::size_t i = 0; i < y.size(); ++i) EXPECT_EQ(std::isfinite(y[i]), i >= 18) << i;
  const Tensor broken = full({256}, NAN, {f32, kVulkan});
  for (const float value : fused_linear(given, w, {.norm = broken}).to_vector<float>()) EXPECT_TRUE(std::isnan(value));
}

TEST_P(QuantizedGpu, GivesResultsInAnotherDtype) {
  const Tensor norm = values({256}, 4, f32).to(kVulkan);
  for (std::int64_t rows : {2, 20}) {
    const Tensor x = values({rows, 256}, 5, f32).to(kVulkan);
    const std::vector<QuantizedTensor> w = on_gpu({weight("Q4_K", 8, 256), weight("Q4_K", 8, 256, 2)});
    for (const DType dtype : {f32, f16, bf16}) {
      for (const Activation gate : {Activation::none, Activation::silu}) {
        const Tensor residual = values({rows, gate == Activation::none ? 16 : 8}, 9, f32).to(kVulkan);
        const Tensor y = fused_linear(x, w, {.norm = norm, .gate = gate, .residual = residual, .dtype = dtype});
        EXPECT_EQ(y.dtype(), dtype);
        const Tensor wanted = fused_linear(x, w, {.norm = norm, .gate = gate, .residual = residual});
        EXPECT_EQ(wanted.dtype(), f32);
        expect_near(y.to(f32), wanted.to(dtype).to(f32), 0.02);
      }
      const Tensor back = quantized_linear(x.to(dtype), w, {.dtype = f32});
      EXPECT_EQ(back.dtype(), f32);
      expect_near(back, quantized_linear(x.to(dtype).to(f32), w), 0.1);
    }
  }
  EXPECT_THROW(quantized_linear(ones({1, 256}, {f32, kVulkan}), weight("Q4_K", 8, 256).to(kVulkan), {.dtype = i32}),
               DtypeError);
}

/// One gemm multiplies with weights that are consecutive in one storage.
TEST_P(QuantizedGpu, TakesNeighboursAsOneMatrix) {
  const Override scope(&Overrides::sixteen_bits, true);
  const Tensor x = values({20, 256}, 5, f32).to(kVulkan);
  for (const char* format : {"Q4_K", "F16", "I2_S"}) {
    const std::vector<QuantizedTensor> apart =
        on_gpu({weight(format, 16, 256), weight(format, 8, 256, 2), weight(format, 8, 256, 3)});
    std::vector<Tensor> blocks;
    for (const QuantizedTensor& w : apart) blocks.push_back(w.blocks());
    const Tensor all = cat(blocks);
    std::vector<QuantizedTensor> together;
    std::int64_t at = 0;
    for (const QuantizedTensor& w : apart) {
      together.push_back({w.format(), w.shape(), all.slice(0, at, at + w.blocks().numel())});
      at += w.blocks().numel();
    }
    const auto dispatches = [&](const std::vector<QuantizedTensor>& weights) {
      const auto before = gpu::queue_stats(kVulkan).dispatches;
      quantized_linear(x, weights);
      return gpu::queue_stats(kVulkan).dispatches - before;
    };
    const bool has_tail = together[0].format().tail != 0;
    EXPECT_EQ(dispatches(together) < dispatches(apart), !has_tail) << format;
    EXPECT_EQ(quantized_linear(x, together).to_vector<float>(), quantized_linear(x, apart).to_vector<float>());
    // In another order they are not one matrix.
    const std::vector<QuantizedTensor> turned{together[1], together[0]};
    EXPECT_EQ(quantized_linear(x, turned).to_vector<float>(),
              quantized_linear(x, std::vector<QuantizedTensor>{apart[1], apart[0]}).to_vector<float>());
  }
}

TEST_P(QuantizedGpu, DecodesLargeWeightsInParts) {
  const std::vector<QuantizedTensor> weights{weight("Q4_K", 9, 256), weight("F32", 5, 256, 2),
                                             weight("I2_S", 7, 256, 3)};
  const LinearOptions options{.bias = values({21}, 3, f32), .residual = values({11, 21}, 9, f32)};
  const LinearOptions gated{.gate = Activation::silu, .residual = values({11, 9}, 9, f32)};
  const Tensor x = values({11, 256}, 5, f32);
  for (std::int64_t rows : {1, 4, 10}) {
    const Override scope(&Overrides::decoded_at_once, rows * 256);
    expect_product(x, weights, options, 1e-6, 1e-6, "three");
    expect_product(x, {weights[0], weight("Q8_0", 9, 256, 7)}, gated, 4e-6, 4e-6, "gated");
  }
}

TEST_P(QuantizedGpu, GivesTheBitsOfEagerWhenCaptured) {
  const std::vector<QuantizedTensor> w = on_gpu({weight("Q4_K", 16, 256), weight("Q6_K", 16, 256, 2)});
  const QuantizedTensor table = weight("Q4_0", 9, 256).to(kVulkan);
  const Tensor norm = values({256}, 4, f32).to(kVulkan), bias = values({32}, 4, f32).to(kVulkan);
  const auto layer = [&](const Tensor& index) {
    const Tensor x = quantized_embedding(index, table);
    const Tensor h = fused_linear(x, w, {.norm = norm, .gate = Activation::silu});
    return fused_linear(x, w, {.bias = bias, .norm = norm}) + cat({h, h}, -1);
  };
  for (std::int64_t rows : {2, 12}) {
    auto step = capture([&](const Tensor& index) { return layer(index); }, {.device = kVulkan});
    for (std::int64_t turn = 0; turn < 4; ++turn) {
      std::vector<std::int64_t> chosen;
      for (std::int64_t r = 0; r < rows; ++r) chosen.push_back((r * 5 + turn) % 9);
      const Tensor index = from_vector(chosen, {rows}).to(kVulkan);
      const std::vector<float> eager = layer(index).to_vector<float>();
      EXPECT_EQ(step(index).to_vector<float>(), eager);
      vulkan::set_barriers_everywhere(true);
      EXPECT_EQ(layer(index).to_vector<float>(), eager);
      vulkan::set_barriers_everywhere(false);
    }
  }
}

/// The table of points is uploaded when it is first needed, which may be while a step is captured.
TEST_P(QuantizedGpu, UploadsPointsOutsideOfCapturedSteps) {
  const QuantizedTensor w = weight("IQ2_XS", 9, 256), there = w.to(kVulkan);
  const Tensor x = values({2, 256}, 5, f32).to(kVulkan);
  std::int64_t calls = 0;
  auto step = capture([&](const Tensor& given) { return ++calls == 1 ? given : matmul(given, dequantize(there).t()); },
                      {.device = kVulkan});
  step(x);
  const std::vector<float> wanted = matmul(x.to(kCPU), dequantize(w).t()).to_vector<float>();
  for (std::int64_t turn = 0; turn < 3; ++turn) {
    const std::vector<float> got = step(x).to_vector<float>();
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], wanted[i], 1e-4) << turn;
  }
}

TEST_P(QuantizedGpu, HasTheGradientOfItsRows) {
  const QuantizedTensor w = weight("Q4_K", 6, 256);
  Tensor x = values({2, 256}, 5, f32).to(kVulkan);
  x.requires_grad_();
  const Tensor g = values({2, 6}, 7, f32).to(kVulkan);
  sum(quantized_linear(x, w.to(kVulkan)) * g).backward();
  expect_near(x.grad(), matmul(g, dequantize(w.to(kVulkan))), 1e-5);
}

TEST_P(QuantizedGpu, KeepsNaNAndInfinityVisible) {
  for (const char* format : {"F16", "Q8_0", "Q4_K", "Q5_1", "Q2_K"}) {
    std::vector<float> x(512, 0.5f);
    x[3] = NAN;
    x[256 + 9] = INFINITY;
    const QuantizedTensor w = weight(format, 4, 256);
    const std::vector<float> values = dequantize(w).to_vector<float>(),
                             y = quantized_linear(from_vector(x, {2, 256}).to(kVulkan), w.to(kVulkan))
                                     .to_vector<float>();
    for (std::size_t r = 0; r < 4; ++r) {
      EXPECT_TRUE(std::isnan(y[r])) << format;
      const float product = values[256 * r + 9] * INFINITY;
      EXPECT_TRUE(y[4 + r] == product || (std::isnan(y[4 + r]) && std::isnan(product))) << format << " " << y[4 + r];
    }
  }
}

TEST_P(QuantizedGpu, TakesWhatIsEmpty) {
  const QuantizedTensor w = weight("Q8_0", 4, 32).to(kVulkan), none = weight("Q8_0", 0, 32).to(kVulkan);
  EXPECT_EQ(quantized_linear(empty({0, 32}, {f32, kVulkan}), w).shape(), (Shape{0, 4}));
  EXPECT_EQ(quantized_linear(ones({2, 32}, {f32, kVulkan}), none).shape(), (Shape{2, 0}));
  const std::vector<QuantizedTensor> both{none, w};
  for (std::int64_t rows : {2, 20}) {
    const Tensor x = ones({rows, 32}, {f32, kVulkan});
    EXPECT_EQ(quantized_linear(x, both).to_vector<float>(), quantized_linear(x, w).to_vector<float>());
  }
  const Tensor bias = values({4}, 3, f32).to(kVulkan);
  const QuantizedTensor flat = QuantizedTensor::unquantized(empty({4, 0}, {f32, kVulkan}));
  for (std::int64_t rows : {2, 20}) {
    const Tensor y = quantized_linear(empty({rows, 0}, {f32, kVulkan}), flat, {.bias = bias});
    EXPECT_EQ(y.to_vector<float>(), bias.expand({rows, 4}).to_vector<float>());
  }
}

INSTANTIATE_TEST_SUITE_P(Device, QuantizedGpu, testing::Values(kVulkan), device_type);

}  // namespace
}  // namespace etna
