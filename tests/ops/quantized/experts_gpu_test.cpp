#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <etna/device/kernel.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/matmul/gemm/internal/variant.h>
#include <etna/tensor/ops/quantized/internal/expert_linear.h>
#include <etna/tensor/ops/quantized/internal/experts.h>
#include <etna/tensor/ops/quantized/internal/gpu.h>
#include <nn/on_device.h>
#include <ops/quantized/quantized_exact.h>

// expert_feed_forward with block formats on a device, beside the same with decoded weights in f64.
namespace etna {
namespace {

using namespace quantized;

struct MixtureSizes {
  std::int64_t rows, width, hidden, experts, chosen;
};

/// Results beside f64, as shares of the largest one.
double largest_error(Device device, const MixtureSizes& s, const std::vector<std::string>& formats) {
  const auto blocks = [&](const std::string& format, std::int64_t rows, std::int64_t columns, unsigned seed) {
    return weight(format, s.experts * rows, columns, seed);
  };
  const QuantizedTensor gate = blocks(formats[0], s.hidden, s.width, 1), up = blocks(formats[1], s.hidden, s.width, 2),
                        down = blocks(formats[2], s.width, s.hidden, 3);
  const Tensor x = values({s.rows, s.width}, 4, f32);
  const ExpertChoice choice = choose_experts(values({s.rows, s.experts}, 5, f32) * 3.0, {}, {.chosen = s.chosen});
  const Tensor y =
      expert_feed_forward(x.to(device), gate.to(device), up.to(device), down.to(device),
                          {choice.expert.to(device), choice.factor.to(device)}, Activation::silu, s.experts);
  const auto decoded = [](const QuantizedTensor& w) { return QuantizedTensor::unquantized(dequantize(w)); };
  const Tensor wanted =
      expert_feed_forward(x.to(f64), decoded(gate), decoded(up), decoded(down), choice, Activation::silu, s.experts);
  return (y.to(kCPU).to(f64) - wanted).abs().max().item<double>() / wanted.abs().max().item<double>();
}

class ExpertsOnDevice : public OnDevice {
 protected:
  /// Matrix units round x and what is between the products to bf16, integer dot products round both to bytes.
  static double bound(std::int64_t rows, const std::string& format) {
    const bool few = rows <= 8, blocks = quant::format_named(format).elements > 1;
    if (few) return blocks && multiplies_bytes(kVulkan) ? 2e-2 : 1e-5;
    const bool rounds =
        gpu::capabilities(kVulkan).cooperative_matrix && gemm::requested_variant() != gemm::KernelVariant::plain;
    return rounds ? 2e-2 : 1e-5;
  }
};

TEST_P(ExpertsOnDevice, ComputeEveryFormat) {
  for (const std::string format : {"F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_K", "Q5_K", "Q6_K", "MXFP4"}) {
    for (const std::int64_t rows : {2, 40}) {
      const double error = largest_error(kVulkan, {rows, 256, 512, 5, 2}, {format, format, format});
      EXPECT_LE(error, bound(rows, format)) << format << ", rows " << rows;
    }
  }
  for (const std::string format : {"Q5_1", "Q2_K", "IQ4_XS", "TQ1_0", "IQ2_S", "IQ3_XXS", "IQ1_M"})
    EXPECT_LE(largest_error(kVulkan, {3, 256, 512, 5, 2}, {format, format, format}), bound(3, format)) << format;
}

/// Numbers that bytes hold exactly, so that results are exact, too.
TEST_P(ExpertsOnDevice, MultiplyBytesExactly) {
  const std::int64_t experts = 5, chosen = 3;
  for (const std::int64_t rows : {1, 2, 8}) {
    for (const std::int64_t columns : {64, 192, 2112}) {
      for (const std::int64_t outputs : {1, 7, 64}) {
        const auto numbers = [](Shape shape, std::int64_t step) {
          std::vector<float> list(static_cast<std::size_t>(numel(shape)));
          for (std::size_t i = 0; i < list.size(); ++i) {
            const auto n = static_cast<std::int64_t>(i);
            list[i] = i % 16 == 3 ? 127.0F : static_cast<float>(n * step % 27 - 13);
          }
          return from_vector(list, shape);
        };
        const QuantizedTensor w = quantize(numbers({experts * outputs, columns}, 5), quant::format_named("Q8_0"));
        std::vector<std::int32_t> choice;
        for (std::int64_t i = 0; i < rows * chosen; ++i) choice.push_back(static_cast<std::int32_t>(i * 3 % experts));
        const Tensor expert = from_vector(choice, {rows, chosen});
        for (const Shape& shape : {Shape{rows, columns}, Shape{rows, chosen, columns}}) {
          const Tensor x = numbers(shape, 11);
          const Tensor y = expert_linear(x.to(kVulkan), w.to(kVulkan), expert.to(kVulkan), experts).to(kCPU);
          const Tensor wanted = expert_linear(x.to(f64), QuantizedTensor::unquantized(dequantize(w)), expert, experts);
          EXPECT_EQ((y.to(f64) - wanted).abs().max().item<double>(), 0) << str(shape) << ", outputs " << outputs;
        }
      }
    }
  }
}

TEST_P(ExpertsOnDevice, KeepWhatIsNotANumberInItsRow) {
  const QuantizedTensor gate = weight("Q4_K", 4 * 256, 256, 1), down = weight("Q6_K", 4 * 256, 256, 2);
  const Tensor expert = from_vector(std::vector<std::int32_t>{0, 1, 2, 3, 1, 0}, {3, 2});
  const Tensor factor = full({3, 2}, 0.5, {f32});
  const auto run = [&](const Tensor& x) {
    return expert_feed_forward(x.to(kVulkan), gate.to(kVulkan), gate.to(kVulkan), down.to(kVulkan),
                               {expert.to(kVulkan), factor.to(kVulkan)}, Activation::silu, 4)
        .to(kCPU);
  };
  const Tensor x = values({3, 256}, 4, f32), wanted = run(x);
  for (const float strange : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    Tensor other = x.clone();
    other.slice(0, 1, 2).slice(1, 37, 38).copy_(full({1, 1}, strange, {f32}));
    const Tensor y = run(other);
    EXPECT_TRUE(equal(y.slice(0, 0, 1), wanted.slice(0, 0, 1)));
    EXPECT_TRUE(equal(y.slice(0, 2, 3), wanted.slice(0, 2, 3)));
    EXPECT_FALSE((abs(y.slice(0, 1, 2)) < 3e38).any().item<bool>());
  }
  EXPECT_EQ(run(zeros({3, 256}, {f32})).abs().max().item<double>(), 0);
  EXPECT_TRUE((abs(run(full({3, 256}, 1e-38, {f32}))) < 1e-30).all().item<bool>());
}

TEST_P(ExpertsOnDevice, ComputeMixedFormatsAndUnevenSizes) {
  for (const std::int64_t rows : {1, 9, 300}) {
    EXPECT_LE(largest_error(kVulkan, {rows, 512, 256, 7, 3}, {"Q4_K", "Q4_K", "Q6_K"}), bound(rows, "Q4_K")) << rows;
    EXPECT_LE(largest_error(kVulkan, {rows, 256, 256, 3, 1}, {"Q4_K", "Q8_0", "Q5_K"}), bound(rows, "Q4_K")) << rows;
    EXPECT_LE(largest_error(kVulkan, {rows, 96, 160, 4, 2}, {"Q8_0", "Q8_0", "Q8_0"}), bound(rows, "F32")) << rows;
    EXPECT_LE(largest_error(kVulkan, {rows, 320, 192, 4, 2}, {"BF16", "BF16", "BF16"}), bound(rows, "BF16")) << rows;
  }
}

TEST_P(ExpertsOnDevice, ReportNumbersOfNoExpert) {
  const QuantizedTensor w = weight("Q8_0", 3 * 32, 32).to(kVulkan);
  for (const std::int64_t rows : {2, 20}) {
    const Tensor expert = full({rows, 1}, 3, {i32, kVulkan}), factor = ones({rows, 1}, {f32, kVulkan});
    const Tensor y =
        expert_feed_forward(ones({rows, 32}, {f32, kVulkan}), w, w, w, {expert, factor}, Activation::silu, 3);
    EXPECT_THROW(y.to_vector<double>(), IndexError) << rows;
  }
}

INSTANTIATE_TEST_SUITE_P(Device, ExpertsOnDevice, testing::Values(kVulkan), device_type);

}  // namespace
}  // namespace etna
