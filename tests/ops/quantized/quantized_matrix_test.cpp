#include <string>

#include <gtest/gtest.h>

#include <etna/device/kernel.h>
#include <etna/tensor/capture.h>
#include <etna/tensor/internal/overrides.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/matmul/gemm/internal/variant.h>
#include <etna/tensor/ops/quantized/internal/gpu.h>
#include <nn/on_device.h>
#include <ops/quantized/quantized_exact.h>

// 9 to 32 rows of x on matrix units, with weights decoded on the fly.
namespace etna {
namespace {

using namespace quantized;

class QuantizedMatrix : public OnDevice {
 protected:
  void SetUp() override {
    OnDevice::SetUp();
    if (!IsSkipped() && !gpu::capabilities(kVulkan).cooperative_matrix) GTEST_SKIP() << "no matrix units";
  }

  /// x and the decoded weight have the precision of bf16, or of f16 if the weight is f16.
  static void expect_product(const Tensor& x, const std::vector<QuantizedTensor>& weights, const LinearOptions& options,
                             double relative, std::string_view what) {
    const Tensor y = fused_linear(x.to(kVulkan), on_gpu(weights), on_gpu(options));
    const Exact e = exact(x, weights, options);
    const std::vector<double> got = y.to_vector<double>();
    ASSERT_EQ(got.size(), e.y.size()) << what;
    for (std::size_t i = 0; i < got.size(); ++i)
      ASSERT_NEAR(got[i], e.y[i], relative * e.magnitude[i] + 1e-6 * std::abs(e.y[i]) + 1e-30)
          << what << " element " << i;
  }
};

TEST_P(QuantizedMatrix, MultipliesEveryFormat) {
  for (const quant::BlockFormat* each : weight_formats()) {
    const quant::BlockFormat& format = *each;
    if (format.name == "F32") continue;
    const double relative = format.name == "F16" ? 1e-3 : 8e-3;
    for (const std::int64_t rows : {9, 32, 37}) {
      expect_product(values({rows, 512}, 4, f32), {weight(format.name, 70, 512)}, {}, relative,
                     std::string(format.name) + ", rows " + std::to_string(rows));
    }
  }
}

TEST_P(QuantizedMatrix, AddsWhatFollowsAProduct) {
  for (const char* format : {"Q4_K", "Q8_0", "F16"}) {
    for (const std::int64_t k : {128, 2048, 8192}) {
      if (k % 256 != 0 && std::string_view(format) == "Q4_K") continue;
      const std::vector<QuantizedTensor> two{weight(format, 65, k), weight(format, 31, k, 2)};
      const Tensor x = values({31, k}, 5, f32);
      const LinearOptions options{
          .bias = values({96}, 3, f32), .norm = values({k}, 4, f32), .residual = values({31, 96}, 9, f32)};
      expect_product(x, two, options, 8e-3, format);
      const QuantizedTensor same = weight(format, 65, k, 7);
      expect_product(x, {two[0], same}, {.gate = Activation::silu, .residual = values({31, 65}, 9, f32)}, 1.6e-2,
                     format);
    }
  }
}

TEST_P(QuantizedMatrix, TakesBlocksAtAnyAddress) {
  for (const char* format : {"Q4_K", "Q8_0", "MXFP4"}) {
    const QuantizedTensor w = weight(format, 9, 512), there = w.to(kVulkan);
    const Tensor x = values({20, 512}, 5, f32).to(kVulkan);
    // Cubins only support aligned blocks, and sum in another order.
    const Tensor by_default = quantized_linear(x, there).to(kCPU);
    const Override scope(&Overrides::gemm_variant, gemm::KernelVariant::coopmat);
    const std::vector<float> wanted = quantized_linear(x, there).to_vector<float>();
    for (const std::int64_t bytes : {1, 2, 4, 8})
      EXPECT_EQ(quantized_linear(x, misaligned(there, bytes)).to_vector<float>(), wanted) << format << " " << bytes;
    expect_near(by_default, quantized_linear(x, there).to(kCPU), 1e-4, 1e-5);
  }
}

/// Every tiling of k and rows among workgroups: few and many rows of w, short and long k, full and partial tiles.
TEST_P(QuantizedMatrix, SharesWorkInEveryWay) {
  for (const char* format : {"F16", "BF16", "Q4_K", "Q6_K", "Q8_0"}) {
    const double relative = std::string_view(format) == "F16" ? 1e-3 : 8e-3;
    for (const auto& [n, k] : {std::pair<std::int64_t, std::int64_t>{5, 2048},
                               {128, 2048},
                               {1003, 2048},
                               {2048, 2048},
                               {3000, 2048},
                               {24, 8192},
                               {70, 10240},
                               {17000, 2048}}) {
      const std::int64_t rows = n > 10000 ? 9 : 32;
      expect_product(values({rows, k}, 4, f32), {weight(format, n, k)}, {}, relative,
                     std::string(format) + " " + std::to_string(n) + "x" + std::to_string(k));
    }
    for (const std::int64_t n : {12, 1003, 9000}) {
      const LinearOptions gated{.bias = values({2 * n}, 3, f32), .gate = Activation::silu};
      const QuantizedTensor both = weight(format, 2 * n, 2048).to(kVulkan);
      const auto half = both.blocks().numel() / 2;
      const std::vector<QuantizedTensor> two{{both.format(), Shape{n, 2048}, both.blocks().slice(0, 0, half)},
                                             {both.format(), Shape{n, 2048}, both.blocks().slice(0, half, 2 * half)}};
      const Tensor x = values({9, 2048}, 5, f32).to(kVulkan);
      const Tensor got = fused_linear(x, two, on_gpu(gated));
      const Tensor products = quantized_linear(x, both, {.bias = gated.bias.to(kVulkan)});
      const Tensor wanted = silu(products.slice(1, 0, n)) * products.slice(1, n, 2 * n);
      expect_near(got.to(kCPU), wanted.to(kCPU), 1e-4 * wanted.abs().max().item<double>(), 1e-4);
    }
  }
}

TEST_P(QuantizedMatrix, GivesTheSameBitsCaptured) {
  const std::vector<QuantizedTensor> w = on_gpu({weight("Q4_K", 96, 2048), weight("Q6_K", 40, 2048, 2)});
  const Tensor norm = values({2048}, 4, f32).to(kVulkan);
  auto step = capture([&](const Tensor& x) { return fused_linear(x, w, {.norm = norm}); }, {.device = kVulkan});
  for (unsigned turn = 1; turn < 5; ++turn) {
    const Tensor x = values({32, 2048}, turn, f32).to(kVulkan);
    const std::vector<float> eager = fused_linear(x, w, {.norm = norm}).to_vector<float>();
    EXPECT_EQ(step(x).to_vector<float>(), eager);
  }
}

INSTANTIATE_TEST_SUITE_P(Device, QuantizedMatrix, testing::Values(kVulkan), device_type);

}  // namespace
}  // namespace etna
