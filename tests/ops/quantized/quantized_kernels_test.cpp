#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <etna/device/internal/cpu/parallel.h>
#include <etna/device/internal/cpu/scratch.h>
#include <etna/tensor/capture.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/quantized/internal/cpu_kernels.h>
#include <etna/tensor/quant/quantized_tensor.h>
#include <quant/random_points.h>
#include <runner/bytes_at_the_end.h>

namespace etna {
namespace {

using quantized::CpuKernels;
using quantized::QuantizedGroup;

constexpr std::int64_t kGroup = 256;

/// A format and kernels for it.
struct QuantizedKernelsPair {
  std::string target, format;
};
void PrintTo(const QuantizedKernelsPair& pair, std::ostream* out) { *out << pair.format << " by " << pair.target; }

std::vector<QuantizedKernelsPair> quantized_kernels_pairs() {
  std::vector<QuantizedKernelsPair> all;
  for (const char* target : {"AVX-512 VNNI", "AVX2", "portable"})
    for (const quant::BlockFormat& format : quant::block_formats())
      if (format.elements > 1) all.push_back({target, std::string(format.name)});
  return all;
}

class Kernels : public testing::TestWithParam<QuantizedKernelsPair> {
 protected:
  void SetUp() override {
    if (!quantized::use_cpu_kernels(GetParam().target.c_str())) GTEST_SKIP() << "this processor lacks them";
  }
  void TearDown() override { quantized::use_cpu_kernels(nullptr); }

  const quant::BlockFormat& format() const { return quant::format_named(GetParam().format); }
  const CpuKernels& kernels() const { return quantized::cpu_kernels(format()); }
  std::size_t row_bytes(std::int64_t columns) const {
    return static_cast<std::size_t>(columns / format().elements) * format().bytes;
  }
  /// Rows that do and do not end within a group.
  std::vector<std::int64_t> lengths() const {
    std::vector<std::int64_t> all;
    for (const std::int64_t columns : {32, 128, 256, 288, 512 + 224, 1024})
      if (columns % format().elements == 0) all.push_back(columns);
    return all;
  }
  /// A row of normal values in the format, and what it decodes to.
  void fill(std::int64_t columns, std::byte* row, std::vector<float>& values, unsigned seed = 0) const {
    std::mt19937 random(static_cast<unsigned>(columns) + 10000 * seed);
    std::normal_distribution<float> normal;
    std::vector<float> given(static_cast<std::size_t>(columns));
    for (float& value : given) value = normal(random);
    std::vector<std::byte> blocks(quant::storage_bytes(format(), columns));
    if (format().can_quantize())
      quant::quantize(format(), given.data(), blocks, columns);
    else
      blocks = quant::random_points(format(), columns, static_cast<unsigned>(random()));
    std::memcpy(row, blocks.data(), row_bytes(columns));
    values.resize(given.size());
    format().decode(row, values.data(), columns / format().elements);
  }
};

TEST_P(Kernels, DequantizeWhatTheFormatDecodes) {
  for (const std::int64_t columns : lengths()) {
    const BytesAtTheEnd row(row_bytes(columns));
    std::vector<float> wanted;
    fill(columns, row.data(), wanted);
    const auto groups = static_cast<std::size_t>((columns + kGroup - 1) / kGroup * kGroup);
    std::vector<float> got(groups);
    kernels().dequantize(row.data(), columns, got.data());
    float largest = 0;
    for (const float value : wanted) largest = std::max(largest, std::abs(value));
    for (std::size_t i = 0; i < wanted.size(); ++i)
      ASSERT_NEAR(got[i], wanted[i], 2e-6 * largest) << columns << " " << i;
    if (kernels().dequantize_bf16 == nullptr) continue;
    std::vector<BFloat16> bf16s(groups);
    kernels().dequantize_bf16(row.data(), columns, &bf16s[0].bits);
    for (std::size_t i = 0; i < wanted.size(); ++i) ASSERT_EQ(bf16s[i].bits, BFloat16(got[i]).bits);
  }
}

TEST_P(Kernels, MultiplyQuantsExactly) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  for (const std::int64_t columns : lengths()) {
    const BytesAtTheEnd row(row_bytes(columns));
    std::vector<float> values;
    fill(columns, row.data(), values);
    constexpr std::int64_t kRows = quantized::kRowsAtOnce + 3;
    const std::int64_t groups = (columns + kGroup - 1) / kGroup;
    std::vector<QuantizedGroup> activations(static_cast<std::size_t>(groups * kRows));
    std::vector<float> x(static_cast<std::size_t>(columns));
    for (std::int64_t m = 0; m < kRows; ++m) {
      for (float& value : x) value = normal(random);
      kernels().quantize_row(x.data(), columns, activations.data() + m, kRows);
    }
    for (std::int64_t first = 0; first < 4; ++first) {
      for (std::int64_t rows = 1; rows <= quantized::kRowsAtOnce && first + rows <= kRows; ++rows) {
        float out[quantized::kRowsAtOnce] = {};
        kernels().dot(row.data(), columns, {kRows, activations.data()}, first, rows, out);
        for (std::int64_t m = 0; m < rows; ++m) {
          double wanted = 0, most = 0;
          for (std::int64_t k = 0; k < columns; ++k) {
            const QuantizedGroup& group = activations[static_cast<std::size_t>(k / kGroup * kRows + first + m)];
            const double product = static_cast<double>(group.quants[k % kGroup]) * group.scales[k % kGroup / 16] *
                                   values[static_cast<std::size_t>(k)];
            wanted += product;
            most += std::abs(product);
          }
          ASSERT_NEAR(out[m], wanted, 1e-5 * most + 1e-12) << columns << " columns, row " << m << " of " << rows;
        }
      }
    }
  }
}

TEST_P(Kernels, GemvMultipliesQuantsExactly) {
  const quantized::GemvKernels& gemv = kernels().gemv;
  if (gemv.multiply == nullptr) GTEST_SKIP() << "dot serves one row, too";
  std::mt19937 random(8);
  std::normal_distribution<float> normal;
  for (const std::int64_t columns : {128, 256, 512, 640, 768, 1024, 1024 + 128, 2048 + 256}) {
    if (columns % format().elements != 0) continue;
    constexpr std::int64_t kCount = 6;
    const BytesAtTheEnd rows(row_bytes(columns) * kCount);
    std::vector<std::vector<float>> values(kCount);
    for (std::size_t r = 0; r < values.size(); ++r)
      fill(columns, rows.data() + r * row_bytes(columns), values[r], static_cast<unsigned>(r));
    std::vector<QuantizedGroup> activations(static_cast<std::size_t>((columns + kGroup - 1) / kGroup));
    std::vector<float> x(static_cast<std::size_t>(columns));
    for (float& value : x) value = normal(random);
    kernels().quantize_row(x.data(), columns, activations.data(), 1);
    const auto groups = static_cast<std::int64_t>(activations.size());
    const std::int64_t runs = (groups + gemv.groups - 1) / gemv.groups;
    cpu::Scratch<std::byte> packed(static_cast<std::size_t>(runs) * gemv.bytes, std::byte{0xff});
    gemv.pack(activations.data(), groups, packed.data());
    for (std::int64_t count = 1; count <= kCount; ++count) {
      std::vector<float> out(kCount + 1, -1.0f);
      gemv.multiply(rows.data(), row_bytes(columns), count, columns, packed.data(), out.data());
      EXPECT_EQ(out[static_cast<std::size_t>(count)], -1) << "what follows is kept";
      for (std::int64_t r = 0; r < count; ++r) {
        double wanted = 0, most = 0;
        for (std::int64_t k = 0; k < columns; ++k) {
          const QuantizedGroup& group = activations[static_cast<std::size_t>(k / kGroup)];
          const double product = static_cast<double>(group.quants[k % kGroup]) * group.scales[k % kGroup / 16] *
                                 values[static_cast<std::size_t>(r)][static_cast<std::size_t>(k)];
          wanted += product;
          most += std::abs(product);
        }
        const float got = out[static_cast<std::size_t>(r)];
        ASSERT_NEAR(got, wanted, 1e-5 * most + 1e-12) << columns << " columns, row " << r << " of " << count;
        // Other rows change no bit.
        float alone = 0;
        gemv.multiply(rows.data() + static_cast<std::size_t>(r) * row_bytes(columns), row_bytes(columns), 1, columns,
                      packed.data(), &alone);
        ASSERT_EQ(got, alone) << columns << " columns, row " << r << " of " << count;
      }
    }
  }
}

TEST_P(Kernels, GemmMultipliesQuantsExactly) {
  if (kernels().gemm == nullptr) GTEST_SKIP() << "many rows go through floats there";
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  for (const std::int64_t columns : lengths()) {
    for (const std::int64_t count : {std::int64_t{1}, std::int64_t{13}, quantized::kPanelRows}) {
      // Each row of the weight is another one.
      const BytesAtTheEnd rows(row_bytes(columns) * static_cast<std::size_t>(count));
      std::vector<std::vector<float>> values(static_cast<std::size_t>(count));
      for (std::size_t r = 0; r < values.size(); ++r)
        fill(columns, rows.data() + r * row_bytes(columns), values[r], static_cast<unsigned>(r));
      for (const std::int64_t tokens : {1, 12, 35}) {
        const std::int64_t groups = (columns + kGroup - 1) / kGroup, step = count + 2;
        std::vector<QuantizedGroup> activations(static_cast<std::size_t>(groups * tokens));
        std::vector<float> x(static_cast<std::size_t>(columns));
        for (std::int64_t m = 0; m < tokens; ++m) {
          for (float& value : x) value = normal(random);
          kernels().quantize_row_centered(x.data(), columns, activations.data() + m, tokens);
        }
        cpu::Scratch<std::byte> room(static_cast<std::size_t>(groups * quantized::kPanelRows / 8) *
                                     quantized::kPackedBytes);
        std::vector<float> out(static_cast<std::size_t>(tokens * step), -1.0f);
        kernels().gemm(rows.data(), row_bytes(columns), count, columns, {tokens, activations.data()}, room.data(),
                       out.data(), step);
        for (std::int64_t m = 0; m < tokens; ++m) {
          for (std::int64_t r = 0; r < step; ++r) {
            double wanted = r < count ? 0 : -1, most = 0;  // what lies between rows of the result is kept
            for (std::int64_t k = 0; r < count && k < columns; ++k) {
              const QuantizedGroup& group = activations[static_cast<std::size_t>(k / kGroup * tokens + m)];
              const double own = static_cast<double>(group.quants[k % kGroup]) * group.scales[k % kGroup / 16] +
                                 group.centers[k % kGroup / 32];
              const double product = own * values[static_cast<std::size_t>(r)][static_cast<std::size_t>(k)];
              wanted += product;
              most += std::abs(product);
            }
            ASSERT_NEAR(out[static_cast<std::size_t>(m * step + r)], wanted, 1e-5 * most + 1e-12)
                << columns << " columns, row " << r << " of " << count << ", row " << m << " of x";
          }
        }
      }
    }
  }
}

TEST_P(Kernels, LookupTablesGiveTheSumsOfIntegerProducts) {
  const quantized::LookupTables& tables = kernels().lookup;
  if (tables.multiply == nullptr) GTEST_SKIP() << "no tables for this format or processor";
  std::mt19937 random(6);
  for (const std::int64_t columns : lengths()) {
    for (const std::int64_t count : {std::int64_t{1}, std::int64_t{19}, tables.rows}) {
      const BytesAtTheEnd rows(row_bytes(columns) * static_cast<std::size_t>(count));
      std::vector<std::vector<float>> values(static_cast<std::size_t>(count));
      for (std::size_t r = 0; r < values.size(); ++r) {
        fill(columns, rows.data() + r * row_bytes(columns), values[r], static_cast<unsigned>(r));
        // A scale of 1/2, so that all products and sums of floats are exact.
        for (std::byte* b = rows.data() + r * row_bytes(columns);
             format().name != "I2_S" && b < rows.data() + (r + 1) * row_bytes(columns); b += format().bytes)
          std::memcpy(b + format().bytes - 2, "\x00\x38", 2);
        format().decode(rows.data() + r * row_bytes(columns), values[r].data(), columns / format().elements);
      }
      for (const std::int64_t tokens : {1, 3, 18}) {
        const std::int64_t groups = (columns + kGroup - 1) / kGroup;
        std::vector<QuantizedGroup> activations(static_cast<std::size_t>(groups * tokens));
        std::vector<float> x(static_cast<std::size_t>(columns * tokens));
        for (float& value : x) value = static_cast<float>(static_cast<int>(random() % 255) - 127);
        for (std::int64_t i = 0; i < columns * tokens; i += 32) x[static_cast<std::size_t>(i)] = 127;  // quants are x
        for (std::int64_t m = 0; m < tokens; ++m)
          kernels().quantize_row(x.data() + m * columns, columns, activations.data() + m, tokens);
        cpu::Scratch<std::byte> sums(tables.bytes * activations.size());
        tables.fill(activations.data(), groups * tokens, sums.data());
        std::vector<float> out(static_cast<std::size_t>(tokens * count));
        tables.multiply(rows.data(), row_bytes(columns), count, columns, {tokens, activations.data()}, sums.data(),
                        out.data(), count);
        for (std::int64_t m = 0; m < tokens; ++m) {
          for (std::int64_t r = 0; r < count; ++r) {
            double wanted = 0;
            for (std::int64_t k = 0; k < columns; ++k)
              wanted += static_cast<double>(x[static_cast<std::size_t>(m * columns + k)]) *
                        values[static_cast<std::size_t>(r)][static_cast<std::size_t>(k)];
            float product = 0;
            kernels().dot(rows.data() + static_cast<std::size_t>(r) * row_bytes(columns), columns,
                          {tokens, activations.data()}, m, 1, &product);
            ASSERT_EQ(product, wanted) << columns << " columns, row " << r;
            ASSERT_EQ(out[static_cast<std::size_t>(m * count + r)], product)
                << columns << " columns, row " << r << " of " << count << ", row " << m << " of x";
          }
        }
      }
    }
  }
}

TEST_P(Kernels, SurviveAnyBytes) {
  std::mt19937 random(4);
  const std::int64_t columns = 512;
  const BytesAtTheEnd row(row_bytes(columns));
  std::vector<QuantizedGroup> activations(2);
  const std::vector<float> x(static_cast<std::size_t>(columns), 1.0f);
  kernels().quantize_row(x.data(), columns, activations.data(), 1);
  std::vector<float> out(static_cast<std::size_t>(columns));
  for (int round = 0; round < 50; ++round) {
    for (std::size_t i = 0; i < row_bytes(columns); ++i)
      row.data()[i] = static_cast<std::byte>(round == 0 ? 0xff : random() & 0xff);
    float product = 0;
    kernels().dot(row.data(), columns, {1, activations.data()}, 0, 1, &product);
    kernels().dequantize(row.data(), columns, out.data());
    if (const quantized::LookupTables& tables = kernels().lookup; tables.multiply != nullptr) {
      cpu::Scratch<std::byte> sums(tables.bytes * activations.size());
      tables.fill(activations.data(), columns / kGroup, sums.data());
      tables.multiply(row.data(), row_bytes(columns), 1, columns, {1, activations.data()}, sums.data(), &product, 1);
    }
    if (const quantized::GemvKernels& gemv = kernels().gemv; gemv.multiply != nullptr) {
      cpu::Scratch<std::byte> packed(gemv.bytes * activations.size());
      gemv.pack(activations.data(), columns / kGroup, packed.data());
      gemv.multiply(row.data(), row_bytes(columns), 1, columns, packed.data(), &product);
    }
    if (kernels().gemm == nullptr) continue;
    cpu::Scratch<std::byte> room(static_cast<std::size_t>(columns / kGroup * quantized::kPanelRows / 8) *
                                 quantized::kPackedBytes);
    kernels().gemm(row.data(), row_bytes(columns), 1, columns, {1, activations.data()}, room.data(), &product, 1);
  }
}

TEST_P(Kernels, QuantizeActivationsToTheNearest) {
  std::vector<float> x(kGroup, 0.0f);
  x[0] = -127;  // the first 32: quants are the values
  x[1] = 1.4f;
  x[2] = 63.6f;
  x[40] = 1e-38f;  // too small for an inverse
  x[70] = std::numeric_limits<float>::max();
  x[71] = -std::numeric_limits<float>::max();
  x[100] = std::numeric_limits<float>::infinity();
  x[140] = std::numeric_limits<float>::quiet_NaN();
  QuantizedGroup group;
  kernels().quantize_row(x.data(), kGroup, &group, 1);
  EXPECT_FLOAT_EQ(group.scales[0], 1);
  EXPECT_EQ(group.quants[0], -127);
  EXPECT_EQ(group.quants[1], 1);
  EXPECT_EQ(group.quants[2], 64);
  EXPECT_FLOAT_EQ(group.sums[0], -62);
  EXPECT_EQ(group.sums[1], 0);
  EXPECT_EQ(group.scales[2], 0);
  EXPECT_EQ(group.quants[40], 0);
  EXPECT_EQ(group.quants[70], 127);
  EXPECT_EQ(group.quants[71], -127);
  EXPECT_TRUE(std::isfinite(group.scales[4]));
  for (const int sub : {6, 7, 8, 9}) {
    EXPECT_TRUE(std::isnan(group.scales[sub]));
    EXPECT_TRUE(std::isnan(group.sums[sub]));
  }
  for (int sub = 10; sub < 16; ++sub) EXPECT_EQ(group.scales[sub], 0);
}

TEST_P(Kernels, QuantizeManyRowsAroundTheirMiddle) {
  constexpr float kMost = std::numeric_limits<float>::max();
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  std::vector<float> x(kGroup, 0.0f);
  for (int i = 0; i < 32; ++i) {
    x[static_cast<std::size_t>(i)] = normal(random);
    x[static_cast<std::size_t>(32 + i)] = 1000 + normal(random);
    x[static_cast<std::size_t>(64 + i)] = -0.3f;  // no range
    x[static_cast<std::size_t>(96 + i)] = i % 2 == 0 ? kMost : -kMost;
    x[static_cast<std::size_t>(128 + i)] = static_cast<float>(i) * 1e-36f;  // too small for an inverse
  }
  x[170] = std::numeric_limits<float>::quiet_NaN();
  x[200] = -std::numeric_limits<float>::infinity();
  QuantizedGroup group;
  kernels().quantize_row_centered(x.data(), kGroup, &group, 1);
  for (int block = 0; block < 8; ++block) {
    if (block == 5 || block == 6) {
      EXPECT_TRUE(std::isnan(group.run_scales[block]));
      EXPECT_TRUE(std::isnan(group.run_sums[block]));
      EXPECT_TRUE(std::isnan(group.sums[2 * block + 1]));
      continue;
    }
    const double scale = group.run_scales[block], center = group.centers[block];
    const auto [least, most] = std::minmax_element(x.begin() + 32 * block, x.begin() + 32 * block + 32);
    const double range = static_cast<double>(*most) - *least;
    int sum = 0;
    for (int i = 32 * block; i < 32 * block + 32; ++i) {
      // Half a step, and what the fit moves.
      EXPECT_NEAR(scale * group.quants[i] + center, x[static_cast<std::size_t>(i)], 0.6 * range / 254 + 1e-30) << i;
      EXPECT_FLOAT_EQ(group.scales[i / 16], group.run_scales[block]);
      sum += group.quants[i];
    }
    EXPECT_EQ(group.quant_sums[2 * block] + group.quant_sums[2 * block + 1], sum);
    EXPECT_FLOAT_EQ(group.run_sums[block], static_cast<float>(scale * sum));
  }
  EXPECT_EQ(group.centers[2], -0.3f);
  EXPECT_EQ(group.run_scales[2], 0);
  EXPECT_EQ(group.centers[7], 0);
}

INSTANTIATE_TEST_SUITE_P(Quantized, Kernels, testing::ValuesIn(quantized_kernels_pairs()));

TEST(QuantizedLinear, TakesKernelsThatTheEnvironmentNames) {
  ASSERT_EQ(setenv("ETNA_QUANT_KERNELS", "portable", 1), 0);
  EXPECT_TRUE(quantized::use_cpu_kernels(nullptr));
  EXPECT_STREQ(quantized::cpu_kernels_target(), "portable");
  ASSERT_EQ(setenv("ETNA_QUANT_KERNELS", "sse9", 1), 0);
  EXPECT_THROW(quantized::use_cpu_kernels(nullptr), Error);
  ASSERT_EQ(unsetenv("ETNA_QUANT_KERNELS"), 0);
  EXPECT_TRUE(quantized::use_cpu_kernels(nullptr));
}

TEST(QuantizedLinear, QuantizesPromptsAsTheEnvironmentSays) {
  ASSERT_EQ(setenv("ETNA_QUANT_PROMPTS", "floats", 1), 0);
  quantized::set_quantizes_prompts(std::nullopt);
  EXPECT_FALSE(quantized::quantizes_prompts());
  ASSERT_EQ(setenv("ETNA_QUANT_PROMPTS", "int8", 1), 0);
  quantized::set_quantizes_prompts(std::nullopt);
  EXPECT_TRUE(quantized::quantizes_prompts());
  ASSERT_EQ(setenv("ETNA_QUANT_PROMPTS", "bytes", 1), 0);
  EXPECT_THROW(quantized::set_quantizes_prompts(std::nullopt), Error);
  ASSERT_EQ(unsetenv("ETNA_QUANT_PROMPTS"), 0);
  quantized::set_quantizes_prompts(std::nullopt);
  EXPECT_TRUE(quantized::quantizes_prompts());
}

TEST(QuantizedLinear, GivesTheSameBitsOnAnyNumberOfThreads) {
  manual_seed(11);
  const std::vector<QuantizedTensor> w = {quantize(randn({517, 512}), quant::format_named("Q4_K")),
                                          quantize(randn({131, 512}), quant::format_named("TQ2_0")),
                                          quantize(randn({131, 512}), quant::format_named("F16"))};
  for (const char* target : {"AVX-512 VNNI", "AVX2", "portable"}) {
    if (!quantized::use_cpu_kernels(target)) continue;
    for (const std::int64_t rows : {1, 5, 9, 40}) {
      // The gemm library's tiling of many rows depends on the threads.
      if (rows == 40 && quantized::cpu_kernels(w[0].format()).gemm == nullptr) continue;
      const std::span<const QuantizedTensor> some(w.data(), rows == 40 ? 1 : w.size());
      const Tensor x = randn({rows, 512});
      Tensor one, four;
      cpu::with_threads(1, [&] { one = quantized_linear(x, some); });
      cpu::with_threads(4, [&] { four = quantized_linear(x, some); });
      EXPECT_TRUE(one.equal(four)) << rows << " " << target;
    }
  }
  quantized::use_cpu_kernels(nullptr);
}

TEST(QuantizedLinear, TakesStridedRowsOfAnyFloat) {
  manual_seed(12);
  const QuantizedTensor w = quantize(randn({19, 256}), quant::format_named("Q6_K"));
  const Tensor wide = randn({256, 6}), x = wide.slice(1, 1, 4).t();
  EXPECT_TRUE(quantized_linear(x, w).equal(quantized_linear(x.contiguous(), w)));
  for (const DType dtype : {f16, bf16}) {
    const Tensor y = quantized_linear(x.to(dtype), w);
    EXPECT_EQ(y.dtype(), dtype);
    EXPECT_TRUE(y.equal(quantized_linear(x.to(dtype).to(f32), w).to(dtype)));
  }
}

TEST(QuantizedLinear, IsExactForF64) {
  manual_seed(13);
  const QuantizedTensor w = quantize(randn({7, 256}), quant::format_named("Q3_K"));
  const Tensor x = randn({2, 256}, {f64});
  const Tensor off = quantized_linear(x, w) - matmul(x, dequantize(w, f64).t());
  EXPECT_LT(off.abs().max().item<double>(), 1e-12);
}

TEST(QuantizedLinear, RunsInsideACapturedStep) {
  manual_seed(14);
  const QuantizedTensor w = quantize(randn({64, 256}), quant::format_named("Q4_0"));
  const Tensor x = randn({2, 256});
  auto step = capture([&](const Tensor& in) { return quantized_linear(in, w) * 2.0; });
  const Tensor wanted = quantized_linear(x, w) * 2.0;
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(step(x).equal(wanted));
}

}  // namespace
}  // namespace etna
