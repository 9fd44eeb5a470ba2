#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include <etna/autograd/autograd.h>
#include <etna/shaders/shaders.h>
#include <etna/tensor/capture.h>
#include <etna/tensor/internal/overrides.h>
#include <etna/tensor/ops/attention/internal/cubin.h>
#include <etna/tensor/ops/attention/internal/matrix.h>
#include <etna/tensor/ops/kernel.h>

#include "ops/numerics.h"

// f32 attention by bf16 parts: numbers that do not split, which plain kernels take.
namespace etna {
namespace {

using namespace numerics;
using attention::KernelVariant;

class AttentionByParts : public testing::Test {
 protected:
  void SetUp() override {
    if (!with_vulkan()) GTEST_SKIP() << "ETNA_TEST_VULKAN is not 1";
    const Override forced(&Overrides::attention_variant, std::optional(KernelVariant::cubin));
    if (!attention::has_f32_cubin(kVulkan, 64)) GTEST_SKIP() << "the device or the build has no such kernels";
  }
};

/// q, k, v and the gradient of the result.
TensorList attention_parts_inputs(std::int64_t size) {
  TensorList in;
  for (std::uint64_t i = 1; i <= 4; ++i) in.push_back(values({1, 2, 200, size}, i, f32));
  return in;
}
/// The result and the gradients of q, k and v.
TensorList attention_parts_results(KernelVariant variant, const TensorList& in) {
  const Override forced(&Overrides::attention_variant, std::optional(variant));
  TensorList x;
  for (std::size_t i = 0; i < 3; ++i) x.push_back(in[i].to(kVulkan).requires_grad_());
  Tensor y = scaled_dot_product_attention(x[0], x[1], x[2], {}, true);
  y.backward(in[3].to(kVulkan));
  return {y.detach(), x[0].grad(), x[1].grad(), x[2].grad()};
}
/// The norm of the difference over the norm, of numbers that are finite in both; infinite if others are not the same.
double attention_parts_distance(const std::vector<double>& a, const std::vector<double>& b) {
  double off = 0, size = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    if (std::isfinite(a[i]) != std::isfinite(b[i])) return std::numeric_limits<double>::infinity();
    if (std::isfinite(a[i])) off += (a[i] - b[i]) * (a[i] - b[i]), size += b[i] * b[i];
  }
  return std::sqrt(off / (size > 0 ? size : 1));
}

TEST_F(AttentionByParts, LeavesWhatDoesNotSplitToPlainKernels) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();
  for (std::int64_t size : {64, 100}) {
    for (float number : {1e-35f, 1e19f, kInfinity, kNan}) {
      // Huge queries or keys leave one weight, and gradients of scores that are nothing but rounding.
      for (std::size_t which = number == 1e19f ? 2 : 0; which < 4; ++which) {
        TensorList in = attention_parts_inputs(size);
        in[which].mutable_data<float>()[70 * size + 3] = number;
        const TensorList found = attention_parts_results(KernelVariant::cubin, in),
                         wanted = attention_parts_results(KernelVariant::plain, in);
        for (std::size_t i = 0; i < 4; ++i)
          EXPECT_LT(attention_parts_distance(doubles(found[i]), doubles(wanted[i])), 4e-6)
              << number << " in " << which << ", result " << i << ", size " << size;
      }
    }
  }
}

TEST_F(AttentionByParts, AsksAtEveryReplay) {
  const Override forced(&Overrides::attention_variant, std::optional(KernelVariant::cubin));
  const TensorList in = attention_parts_inputs(64);
  TensorList x;
  for (const Tensor& one : in) x.push_back(one.to(kVulkan));
  const auto run = [](const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& dy) {
    const Tensor a = q.detach().requires_grad_(), b = k.detach().requires_grad_(), c = v.detach().requires_grad_();
    const Tensor y = scaled_dot_product_attention(a, b, c, {}, true);
    return cat({y.detach(), autograd::grad(TensorList{y}, TensorList{a, b, c}, TensorList{dy})[1]}, 3);
  };
  auto step = capture([&](const Tensor& v) { return run(x[0], x[1], v, x[3]).clone(); }, {.device = kVulkan});
  TensorList huge = in;  // among the values
  huge[2] = in[2].clone();
  huge[2].mutable_data<float>()[70 * 64 + 3] = 1e19f;
  for (int round = 0; round < 4; ++round) {
    for (const TensorList* now : {&in, const_cast<const TensorList*>(&huge)}) {
      const TensorList wanted = attention_parts_results(KernelVariant::plain, *now);
      const Tensor found = step((*now)[2].to(kVulkan));
      EXPECT_LT(attention_parts_distance(doubles(found.slice(3, 0, 64)), doubles(wanted[0])), 4e-6) << round;
      EXPECT_LT(attention_parts_distance(doubles(found.slice(3, 64, 128)), doubles(wanted[2])), 4e-6) << round;
    }
  }
}

/// The plain kernel behind kernels by parts, which runs on every device.
TEST(PlainAttentionAfterParts, RunsOnlyIfANumberDoesNotSplit) {
  if (!with_vulkan()) GTEST_SKIP() << "ETNA_TEST_VULKAN is not 1";
  constexpr std::uint32_t kAfterParts = 97, kCausal = 1u << 31;  // as in attention_limits.glsl and attention.glsl
  const Tensor q = values({1, 1, 70, 64}, 1, f32).to(kVulkan), k = values({1, 1, 70, 64}, 2, f32).to(kVulkan),
               v = values({1, 1, 70, 64}, 3, f32).to(kVulkan);
  const Tensor wanted = scaled_dot_product_attention(q, k, v, {}, true, 1);
  for (std::int32_t words = 0; words < 3; ++words) {
    const Tensor unsplit = from_vector<std::int32_t>({words & 1, words >> 1}, {2}, kVulkan);
    const Tensor y = full({1, 1, 70, 64}, 7, {f32, kVulkan}), logsumexp = empty({1, 1, 70}, {f32, kVulkan});
    gpu::Kernel kernel(shaders::attention_64, "attention");
    kernel.spec(f32, 4, kAfterParts, 4).read(q).read(k).read(v).read(unsplit).read_write(y).read_write(logsumexp);
    for (int i = 0; i < 3; ++i) kernel.u32(70 * 64, 70 * 64, 64);
    kernel.u32(0, 0, 0, 0).u32(70, 70, 1u | 64u << 16 | kCausal).f32(1).dispatch(2);
    EXPECT_EQ(doubles(y), words == 0 ? std::vector<double>(70 * 64, 7) : doubles(wanted)) << words;
  }
}

}  // namespace
}  // namespace etna
