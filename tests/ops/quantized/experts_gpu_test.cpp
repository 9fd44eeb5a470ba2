#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <etna/device/kernel.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/matmul/gemm/internal/variant.h>
#include <etna/tensor/ops/quantized/internal/experts.h>
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
  /// Matrix units round x and what is between the products to bf16.
  static double bound() {
    const bool rounds =
        gpu::capabilities(kVulkan).cooperative_matrix && gemm::requested_variant() != gemm::KernelVariant::plain;
    return rounds ? 2e-2 : 1e-5;
  }
};

TEST_P(ExpertsOnDevice, ComputeEveryFormat) {
  for (const std::string format : {"F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_K", "Q5_K", "Q6_K", "MXFP4"}) {
    for (const std::int64_t rows : {2, 40}) {
      const double error = largest_error(kVulkan, {rows, 256, 512, 5, 2}, {format, format, format});
      EXPECT_LE(error, bound()) << format << ", rows " << rows;
    }
  }
}

TEST_P(ExpertsOnDevice, ComputeMixedFormatsAndUnevenSizes) {
  for (const std::int64_t rows : {1, 9, 300}) {
    EXPECT_LE(largest_error(kVulkan, {rows, 512, 256, 7, 3}, {"Q4_K", "Q4_K", "Q6_K"}), bound()) << rows;
    EXPECT_LE(largest_error(kVulkan, {rows, 256, 256, 3, 1}, {"Q4_K", "Q8_0", "Q5_K"}), bound()) << rows;
    EXPECT_LE(largest_error(kVulkan, {rows, 96, 160, 4, 2}, {"Q8_0", "Q8_0", "Q8_0"}), bound()) << rows;
    EXPECT_LE(largest_error(kVulkan, {rows, 320, 192, 4, 2}, {"BF16", "BF16", "BF16"}), bound()) << rows;
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
