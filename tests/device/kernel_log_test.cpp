#include <etna/device/internal/choices/kernel_log.h>

#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/device/error.h>
#include <etna/device/kernel.h>
#include <etna/device/memory.h>
#include <etna/device/profile/profile.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/quant/quantized_tensor.h>

namespace etna {
namespace {

using ::testing::IsEmpty;

class KernelLogOnGpu : public testing::Test {
 protected:
  void SetUp() override {
    if (std::getenv("ETNA_TEST_VULKAN") == nullptr) GTEST_SKIP() << "ETNA_TEST_VULKAN is not 1";
  }

  using Call = std::function<Tensor(const Tensor& a, const Tensor& b)>;

  static std::vector<ChosenKernel> chosen(const Shape& a, const Shape& b, DType dtype, const Call& call) {
    KernelLog noted(kVulkan);
    call(empty(a, {dtype, kVulkan}), empty(b, {dtype, kVulkan}));
    return noted.kernels();
  }
  /// The ops of what runs on the device, by its profile.
  static std::vector<std::string> profiled(const Shape& a, const Shape& b, DType dtype, const Call& call) {
    const Tensor x = ones(a, {dtype, kVulkan}), y = ones(b, {dtype, kVulkan});
    synchronize(kVulkan);
    profile::start();
    call(x, y);
    synchronize(kVulkan);
    const profile::Profile profile = profile::stop();
    std::vector<std::string> ops;
    for (const profile::GpuProfile& gpu : profile.gpus)
      for (const profile::GpuSpan& span : gpu.spans) ops.emplace_back(span.name);
    return ops;
  }
};

TEST_F(KernelLogOnGpu, NotesWhatRuns) {
  const struct {
    const char* name;
    Shape a, b;
    Call call;
  } cases[] = {
      {"add", {64, 300}, {64, 300}, [](const Tensor& a, const Tensor& b) { return a + b; }},
      {"matmul", {65, 128}, {128, 96}, [](const Tensor& a, const Tensor& b) { return matmul(a, b); }},
      {"one row", {1, 1024}, {1024, 1024}, [](const Tensor& a, const Tensor& b) { return matmul(a, b); }},
      {"long sums", {8, 8192}, {8192, 8}, [](const Tensor& a, const Tensor& b) { return matmul(a, b); }},
      {"softmax", {33, 100}, {1}, [](const Tensor& a, const Tensor&) { return softmax(a, -1); }},
      {"sum", {1000, 1000}, {1}, [](const Tensor& a, const Tensor&) { return sum(a); }},
      {"cumsum", {3, 70000}, {1}, [](const Tensor& a, const Tensor&) { return cumsum(a, 1); }},
      {"layer_norm", {33, 100}, {100}, [](const Tensor& a, const Tensor& b) { return layer_norm(a, b, b, 1e-5); }},
      {"conv2d", {2, 3, 16, 16}, {4, 3, 3, 3}, [](const Tensor& a, const Tensor& b) { return conv2d(a, b); }},
      {"attention", {1, 2, 70, 32}, {1}, [](const Tensor& a, const Tensor&) {
         return dot_product_attention(a, a, a, {.causal = true});
       }}};
  for (const auto& c : cases) {
    for (const DType dtype : {f32, f16}) {
      const std::vector<ChosenKernel> kernels = chosen(c.a, c.b, dtype, c.call);
      std::vector<std::string> ops;
      for (const ChosenKernel& k : kernels) {
        ops.push_back(k.op);
        EXPECT_FALSE(k.kernel.empty());
        EXPECT_GT(k.threads, 0u);
      }
      EXPECT_EQ(ops, profiled(c.a, c.b, dtype, c.call)) << c.name << " " << name(dtype);
      EXPECT_FALSE(kernels.empty()) << c.name;
    }
  }
}

TEST_F(KernelLogOnGpu, RunsNothingAndTakesNoMemory) {
  const std::uint64_t dispatches = gpu::queue_stats(kVulkan).dispatches, bytes = memory_stats(kVulkan).in_use;
  {
    KernelLog noted(kVulkan);
    const Tensor x = empty({1 << 14, 1 << 14}, {f32, kVulkan});
    const Tensor y = matmul(x, x);
    EXPECT_EQ(noted.kernels().back().op, "matmul");
    EXPECT_EQ(memory_stats(kVulkan).in_use, bytes) << "1 GiB each";
  }
  EXPECT_EQ(gpu::queue_stats(kVulkan).dispatches, dispatches);
  EXPECT_EQ((ones({3}, {f32, kVulkan}) + 1.0).sum().item<float>(), 6) << "later work runs";
}

TEST_F(KernelLogOnGpu, NamesKernelsAndRefusesToRead) {
  const auto kernels = chosen({4, 64}, {64, 64}, f32, [](const Tensor& a, const Tensor&) { return softmax(a, -1); });
  ASSERT_EQ(kernels.size(), 1u);
  EXPECT_THAT(kernels[0].kernel, ::testing::HasSubstr("softmax"));
  EXPECT_GE(kernels[0].threads, 4u);
  KernelLog noted(kVulkan);
  EXPECT_THAT(noted.kernels(), IsEmpty());
  EXPECT_THROW(empty({3}, {f32, kVulkan}).to(kCPU), CaptureError);
}

}  // namespace
}  // namespace etna
