#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/autograd/autograd.h>
#include <etna/device/internal/vulkan/api/diagnostics.h>
#include <etna/device/kernel.h>

#include "ops/numerics.h"

namespace etna {
namespace {

using namespace numerics;
using testing::HasSubstr;
using testing::ThrowsMessage;

struct SelfAttentionCase {
  std::int64_t heads, kv_heads, rows, size;
  bool causal;

  Shape shape() const { return {2, rows, (heads + 2 * kv_heads) * size}; }
};
const SelfAttentionCase kCases[] = {{2, 2, 7, 3, false},   {4, 2, 5, 4, true},    {3, 1, 70, 10, true},
                                    {1, 1, 131, 64, true}, {2, 1, 67, 66, false}, {1, 1, 65, 256, true}};

/// Result and gradient, with views that slice the heads out.
TensorList composed(const SelfAttentionCase& c, const Tensor& qkv, const Tensor& dy) {
  Tensor x = detail::alias(qkv.detach()).requires_grad_();
  auto parts = x.reshape({2, c.rows, c.heads + 2 * c.kv_heads, c.size}).split({c.heads, c.kv_heads, c.kv_heads}, -2);
  for (Tensor& part : parts) part = part.transpose(1, 2);
  Tensor y =
      scaled_dot_product_attention(parts[0], parts[1], parts[2], {}, c.causal).transpose(1, 2).reshape(dy.shape());
  y.backward(dy);
  return {y, x.grad()};
}

TensorList packed(const SelfAttentionCase& c, const Tensor& qkv, const Tensor& dy) {
  Tensor x = detail::alias(qkv.detach()).requires_grad_();
  Tensor y = self_attention(x, c.heads, c.kv_heads, c.causal);
  y.backward(dy);
  return {y, x.grad()};
}

TEST(SelfAttention, IsAttentionBetweenThePartsOfOneProjection) {
  for (const SelfAttentionCase& c : kCases) {
    for (DType t : {f64, f32, bf16}) {
      Tensor qkv = values(c.shape(), 1, t) * 2.0, dy = values({2, c.rows, c.heads * c.size}, 2, t);
      TensorList wanted = composed(c, qkv, dy), found = packed(c, qkv, dy);
      for (std::size_t i = 0; i < 2; ++i)
        expect_near(doubles(found[i]), doubles(wanted[i]), t == f64 ? 1e-13 : tolerance(t), std::to_string(c.rows));
    }
  }
}

TEST(SelfAttention, OfTheGpuAgreesWithTheCpu) {
  if (!with_vulkan()) GTEST_SKIP() << "ETNA_TEST_VULKAN is not 1";
  for (const SelfAttentionCase& c : kCases) {
    for (DType t : {f32, bf16}) {
      if (t != f32 && c.size != 64) continue;  // pipelines are slow to build
      Tensor qkv = values(c.shape(), 1, t) * 2.0, dy = values({2, c.rows, c.heads * c.size}, 2, t);
      TensorList wanted = packed(c, qkv, dy), found = packed(c, on_gpu(qkv), on_gpu(dy));
      for (std::size_t i = 0; i < 2; ++i)
        expect_near(doubles(found[i]), doubles(wanted[i]), t == f32 ? 2e-5 : 3 * tolerance(t), std::to_string(c.rows));
    }
  }
}

TEST(SelfAttention, TakesAnyViewAndAnyGradient) {
  const SelfAttentionCase c{2, 2, 5, 4, true};
  for (Device d : {kCPU, kVulkan}) {
    if (d.is_vulkan() && !with_vulkan()) continue;
    Tensor qkv = values({2, 24, 5}, 1, f32), dy = values({5, 2, 8}, 2, f32);
    TensorList wanted = packed(c, qkv.t().contiguous(), dy.transpose(0, 1).contiguous());
    TensorList found = packed(c, qkv.to(d).t(), dy.to(d).transpose(0, 1));
    for (std::size_t i = 0; i < 2; ++i) expect_near(doubles(found[i]), doubles(wanted[i]), 1e-5);
  }
}

TEST(SelfAttention, IsOneDispatchEachWay) {
  if (!with_vulkan()) GTEST_SKIP() << "ETNA_TEST_VULKAN is not 1";
  Tensor qkv = on_gpu(values({2, 7, 24}, 1, f32)).requires_grad_(), dy = on_gpu(values({2, 7, 8}, 2, f32));
  auto dispatches = [] { return gpu::queue_stats(kVulkan).dispatches; };
  std::uint64_t before = dispatches();
  Tensor y = self_attention(qkv, 2);
  EXPECT_EQ(dispatches() - before, 1u);
  before = dispatches();
  y.backward(dy);
  EXPECT_EQ(dispatches() - before, 1u);
}

TEST(SelfAttention, SaysWhatDoesNotFit) {
  Tensor x = zeros({2, 5, 24});
  EXPECT_THAT([&] { self_attention(x, 5); }, ThrowsMessage<ShapeError>(HasSubstr("(5 + 2 · 5) · D")));
  EXPECT_THAT([&] { self_attention(x, 4, 3); }, ThrowsMessage<ShapeError>(HasSubstr("multiple")));
  EXPECT_THAT([&] { self_attention(x, 0); }, ThrowsMessage<ShapeError>(HasSubstr("0 heads")));
  EXPECT_THAT([&] { self_attention(zeros({24}), 2); }, ThrowsMessage<ShapeError>(HasSubstr("[24]")));
  EXPECT_THAT([&] { self_attention(zeros({2, 24}, {i32}), 2); }, ThrowsMessage<DtypeError>(HasSubstr("i32")));
  EXPECT_THAT([&] { self_attention(zeros({2, 3 * 257}), 1); }, ThrowsMessage<ShapeError>(HasSubstr("256")));
}

}  // namespace
}  // namespace etna
