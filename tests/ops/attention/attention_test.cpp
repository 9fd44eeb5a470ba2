#include <algorithm>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/autograd/autograd.h>

#include "ops/numerics.h"
#include "runner/run_tests.h"

namespace etna {
namespace {

using namespace numerics;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

struct AttentionCase {
  Tensor q, k, v, mask = {};
  bool causal = false;
  std::optional<double> scale = {};

  Tensor run() const { return scaled_dot_product_attention(q, k, v, mask, causal, scale); }
};

/// Attention with loops, in f64. Leading dimensions are merged.
std::vector<double> naive(const AttentionCase& c) {
  std::int64_t heads = c.q.size(-3), groups = c.k.size(-3), t = c.q.size(-2), s = c.k.size(-2), d = c.q.size(-1);
  std::int64_t batch = c.q.numel() / std::max<std::int64_t>(1, heads * t * d);
  std::vector<double> q = doubles(c.q), k = doubles(c.k), v = doubles(c.v), mask, out;
  if (c.mask.defined()) {
    Shape scores = c.q.shape();
    scores.back() = s;
    mask = doubles(c.mask.dtype() == boolean ? where(c.mask, zeros(c.mask.shape()), kMinusInfinity).expand(scores)
                                             : c.mask.expand(scores));
  }
  double scale = c.scale ? *c.scale : 1 / std::sqrt(static_cast<double>(d));
  for (std::int64_t row = 0; row < batch * heads * t; ++row) {
    std::int64_t b = row / t / heads, h = row / t % heads, i = row % t, kv = (b * groups + h / (heads / groups)) * s;
    std::vector<double> score(static_cast<std::size_t>(s));
    double largest = kMinusInfinity, sum = 0;
    for (std::int64_t j = 0; j < s; ++j) {
      double x = 0;
      for (std::int64_t l = 0; l < d; ++l)
        x += q[static_cast<std::size_t>(row * d + l)] * k[static_cast<std::size_t>((kv + j) * d + l)];
      x *= scale;
      if (c.mask.defined()) x += mask[static_cast<std::size_t>(row * s + j)];
      if (c.causal && j > i) x = kMinusInfinity;
      score[static_cast<std::size_t>(j)] = x;
      largest = std::max(largest, x);
    }
    for (double& x : score) sum += x = x == kMinusInfinity ? 0 : std::exp(x - largest);
    for (std::int64_t l = 0; l < d; ++l) {
      double y = 0;
      for (std::int64_t j = 0; j < s; ++j)
        y += score[static_cast<std::size_t>(j)] * v[static_cast<std::size_t>((kv + j) * d + l)];
      out.push_back(sum == 0 ? 0 : y / sum);
    }
  }
  return out;
}

Tensor bool_mask(Shape shape, std::uint64_t seed) { return gt(values(shape, seed), -0.3); }

/// q, k, v as views of one [B, T, 3, H, D].
AttentionCase fused(std::int64_t b, std::int64_t t, std::int64_t h, std::int64_t d, bool causal, DType dtype) {
  Tensor qkv = values({b, t, 3, h, d}, 1, dtype) * 2.0;
  auto part = [&](std::int64_t i) { return qkv.select(2, i).transpose(1, 2); };
  return {part(0), part(1), part(2), {}, causal};
}

std::vector<AttentionCase> attention_cases(DType t) {
  auto v = [&](Shape shape, std::uint64_t seed) { return values(shape, seed, t) * 2.0; };
  return {
      {v({1, 1, 1}, 1), v({1, 1, 1}, 2), v({1, 1, 1}, 3)},
      {v({2, 5, 4}, 1), v({2, 7, 4}, 2), v({2, 7, 4}, 3)},
      {v({2, 2, 5, 3}, 1), v({2, 2, 5, 3}, 2), v({2, 2, 5, 3}, 3), {}, true},
      {v({1, 2, 7, 4}, 1), v({1, 2, 3, 4}, 2), v({1, 2, 3, 4}, 3), {}, true},                 // more queries than keys
      {v({1, 2, 3, 4}, 1), v({1, 2, 7, 4}, 2), v({1, 2, 7, 4}, 3), {}, true},                 // fewer
      {v({2, 6, 5, 4}, 1), v({2, 2, 7, 4}, 2), v({2, 2, 7, 4}, 3)},                           // grouped heads
      {v({2, 1, 3, 5, 4}, 1), v({2, 1, 3, 7, 4}, 2), v({2, 1, 3, 7, 4}, 3), {}, false, 0.3},  // five dimensions, scale
      {v({2, 3, 5, 4}, 1), v({2, 3, 7, 4}, 2), v({2, 3, 7, 4}, 3), bool_mask({5, 7}, 4)},
      {v({2, 3, 5, 4}, 1), v({2, 3, 7, 4}, 2), v({2, 3, 7, 4}, 3), bool_mask({2, 1, 1, 7}, 4)},
      {v({2, 3, 5, 4}, 1), v({2, 3, 7, 4}, 2), v({2, 3, 7, 4}, 3), v({3, 1, 7}, 4)},
      {v({2, 3, 5, 4}, 1), v({2, 3, 7, 4}, 2), v({2, 3, 7, 4}, 3), v({2, 1, 5, 7}, 4)},
      fused(2, 131, 3, 10, true, t),
      fused(1, 67, 2, 67, false, t),
      fused(1, 71, 1, 131, true, t),
  };
}

double looser(DType t) { return t == f64 ? 1e-12 : t == f32 ? 1e-5 : 3 * tolerance(t); }

TEST(Attention, AgreesWithLoops) {
  for (DType t : {f64, f32, f16, bf16}) {
    int index = 0;
    for (const AttentionCase& c : attention_cases(t)) {
      Tensor y = c.run();
      EXPECT_EQ(y.shape(), c.q.shape());
      EXPECT_EQ(y.dtype(), t);
      expect_near(doubles(y), naive(c), looser(t), std::string(name(t)) + " case " + std::to_string(index++));
    }
  }
}

TEST(Attention, GradientsAgreeWithDifferences) {
  int index = 0;
  for (const AttentionCase& c : attention_cases(f64)) {
    if (c.q.numel() > 300) continue;
    auto f = [&](const TensorList& in) {
      return TensorList{scaled_dot_product_attention(in[0], in[1], in[2], in[3], c.causal, c.scale)};
    };
    TensorList in = {c.q.clone().requires_grad_(), c.k.clone().requires_grad_(), c.v.clone().requires_grad_(), c.mask};
    if (c.mask.defined() && c.mask.dtype() == f64) in[3] = c.mask.clone().requires_grad_();
    bool second = c.q.numel() < 80;
    EXPECT_EQ(autograd::gradcheck(f, in, {.second_order = second}), "") << "case " << index;
    ++index;
  }
}

TEST(Attention, GradientsReachAFusedProjection) {
  auto f = [](const TensorList& in) {
    auto part = [&](std::int64_t i) { return in[0].select(2, i).transpose(1, 2); };
    return TensorList{scaled_dot_product_attention(part(0), part(1), part(2), {}, true).transpose(1, 2)};
  };
  EXPECT_EQ(autograd::gradcheck(f, {values({2, 3, 3, 2, 2}, 1).requires_grad_()}), "");
}

TEST(Attention, ARowThatAttendsToNothingIsZero) {
  for (Device d : {kCPU, kVulkan}) {
    if (d.is_vulkan() && !with_vulkan()) continue;
    Tensor mask = zeros({2, 2}, {boolean, d});
    mask.slice(0, 0, 1).fill_(1);
    TensorList in;
    for (std::uint64_t i = 1; i <= 3; ++i) in.push_back(values({1, 2, 3}, i, f32).to(d).requires_grad_());
    Tensor y = scaled_dot_product_attention(in[0], in[1], in[2], mask);
    std::vector<double> v = doubles(y);
    for (std::size_t i = 3; i < 6; ++i) EXPECT_EQ(v[i], 0);
    y.backward(ones({1, 2, 3}, {f32, d}));
    std::vector<double> dq = doubles(in[0].grad());
    for (std::size_t i = 3; i < 6; ++i) EXPECT_EQ(dq[i], 0);
    for (const Tensor& x : in) {
      for (double g : doubles(x.grad())) EXPECT_TRUE(std::isfinite(g));
    }
    Tensor none = scaled_dot_product_attention(in[0], zeros({1, 0, 3}, {f32, d}), zeros({1, 0, 3}, {f32, d}));
    EXPECT_EQ(doubles(none), std::vector<double>(6, 0.0));
  }
}

// Keys are processed in blocks: scores that grow from block to block, a block that a row does not attend to, causal
// rows that end in each block.
TEST(Attention, LongSequencesGiveWhatWholeRowsOfScoresGive) {
  const std::int64_t keys = 1100, size = 4;
  const Tensor rising = arange(0, static_cast<double>(keys), 1, {f64}).unsqueeze(1) * 0.01;
  const Tensor k = values({1, 2, keys, size}, 2) + rising, v = values({1, 2, keys, size}, 3);
  Tensor hidden = ones({keys}, {boolean, kCPU});
  hidden.slice(0, 0, 600).fill_(0);
  const AttentionCase attention_cases[] = {{values({1, 2, 5, size}, 1), k, v},
                                           {values({1, 2, 5, size}, 1), k, v, hidden},
                                           {values({1, 4, 1100, size}, 1), k, v, {}, true}};
  for (const AttentionCase& c : attention_cases) {
    expect_near(doubles(c.run()), naive(c), 1e-12, "f64");
    TensorList in = {c.q.clone().detach().requires_grad_(), c.k.clone().detach().requires_grad_(),
                     c.v.clone().detach().requires_grad_()};
    const Tensor g = values(c.q.shape(), 4);
    AttentionCase{in[0], in[1], in[2], c.mask, c.causal}.run().backward(g);
    const std::int64_t heads = c.q.size(1) / 2;
    auto repeated = [&](const Tensor& x) {
      return x.reshape({1, 2, 1, keys, size}).expand({1, 2, heads, keys, size}).reshape({1, 2 * heads, keys, size});
    };
    TensorList plain = {c.q.clone().detach().requires_grad_(), c.k.clone().detach().requires_grad_(),
                        c.v.clone().detach().requires_grad_()};
    Tensor scores = matmul(plain[0], repeated(plain[1]).transpose(-1, -2)) * 0.5;
    if (c.mask.defined()) scores = where(c.mask, scores, kMinusInfinity);
    if (c.causal) scores = where(tril(ones({c.q.size(2), keys}, {boolean, kCPU})), scores, kMinusInfinity);
    matmul(softmax(scores, -1), repeated(plain[2])).backward(g);
    for (std::size_t i = 0; i < in.size(); ++i)
      expect_near(doubles(in[i].grad()), doubles(plain[i].grad()), 1e-11, "gradient " + std::to_string(i));
    const AttentionCase narrow{c.q.to(f32), c.k.to(f32), c.v.to(f32), c.mask, c.causal};
    expect_near(doubles(narrow.run()), naive(c), 1e-5, "f32");
  }
}

TEST(Attention, KeepsNaNVisible) {
  for (Device d : {kCPU, kVulkan}) {
    if (d.is_vulkan() && !with_vulkan()) continue;
    Tensor q = zeros({1, 2, 3}), k = values({1, 4, 3}, 1, f32);
    q.mutable_data<float>()[4] = std::numeric_limits<float>::quiet_NaN();
    std::vector<double> y = doubles(scaled_dot_product_attention(q.to(d), k.to(d), k.to(d)));
    for (std::size_t i = 0; i < 6; ++i) EXPECT_EQ(std::isnan(y[i]), i >= 3);
  }
}

TEST(Attention, SaysWhatDoesNotFit) {
  Tensor q = zeros({2, 4, 5, 8});
  EXPECT_THAT(
      [&] {
        scaled_dot_product_attention(q, zeros({2, 3, 5, 8}), zeros({2, 3, 5, 8}));
      },
      ThrowsMessage<ShapeError>(HasSubstr("multiple")));
  EXPECT_THAT(
      [&] {
        scaled_dot_product_attention(q, zeros({2, 4, 5, 7}), zeros({2, 4, 5, 7}));
      },
      ThrowsMessage<ShapeError>(HasSubstr("q [2, 4, 5, 8]")));
  EXPECT_THAT(
      [&] {
        scaled_dot_product_attention(q, q, q, zeros({3, 5}, {boolean}));
      },
      ThrowsMessage<ShapeError>(HasSubstr("does not broadcast")));
  EXPECT_THAT(
      [&] {
        scaled_dot_product_attention(q, q, q, zeros({5, 5}, {boolean}), true);
      },
      ThrowsMessage<ShapeError>(HasSubstr("causal")));
  EXPECT_THAT(
      [&] {
        scaled_dot_product_attention(q, q, q, zeros({5, 5}, {i32}));
      },
      ThrowsMessage<DtypeError>(HasSubstr("i32")));
  Tensor wide = zeros({1, 1, 2, 257});
  EXPECT_THAT([&] { scaled_dot_product_attention(wide, wide, wide); }, ThrowsMessage<ShapeError>(HasSubstr("256")));
}

class AttentionOnGpu : public testing::Test {
 protected:
  void SetUp() override {
    if (!with_vulkan()) GTEST_SKIP() << "ETNA_TEST_VULKAN is not 1";
  }
};

/// The result and the gradients of q, k, v.
TensorList attention_results(const AttentionCase& c) {
  TensorList in = {c.q.detach(), c.k.detach(), c.v.detach()};
  for (Tensor& x : in) x = detail::alias(x).requires_grad_();
  Tensor y = scaled_dot_product_attention(in[0], in[1], in[2], c.mask, c.causal, c.scale);
  y.backward(values(c.q.shape(), 9, c.q.dtype()).to(c.q.device()));
  return {y, in[0].grad(), in[1].grad(), in[2].grad()};
}

TEST_F(AttentionOnGpu, AgreesWithTheCpu) {
  for (DType t : {f32, f16, bf16}) {
    int index = 0;
    for (const AttentionCase& c : thinned(attention_cases(t))) {
      if (t != f32 && index % 3 != 1 && ++index)
        continue;  // every kernel in f32, only some in the other dtypes: pipelines are slow to build
      TensorList host = attention_results(c),
                 device = attention_results({on_gpu(c.q), on_gpu(c.k), on_gpu(c.v), on_gpu(c.mask), c.causal, c.scale});
      for (std::size_t i = 0; i < host.size(); ++i) {
        expect_near(doubles(device[i]), doubles(host[i]), looser(t),
                    std::string(name(t)) + " case " + std::to_string(index) + " tensor " + std::to_string(i));
      }
      ++index;
    }
  }
}

TEST_F(AttentionOnGpu, TakesViewsOfOneProjectionAndWideHeads) {
  for (std::int64_t size : {64, 66, 128, 256}) {
    Tensor qkv = values({1, 70, 3, 2, size}, 1, f32);
    auto at = [&](Device d) {
      Tensor x = qkv.to(d);
      auto part = [&](std::int64_t i) { return x.select(2, i).transpose(1, 2); };
      return attention_results({part(0), part(1), part(2), {}, true});
    };
    TensorList host = at(kCPU), device = at(kVulkan);
    for (std::size_t i = 0; i < host.size(); ++i)
      expect_near(doubles(device[i]), doubles(host[i]), 2e-5, std::to_string(size));
  }
}

TEST_F(AttentionOnGpu, TwoRunsGiveTheSameBits) {
  AttentionCase c = fused(2, 130, 2, 16, true, f32);
  AttentionCase g = {on_gpu(c.q), on_gpu(c.k), on_gpu(c.v), {}, true};
  TensorList first = attention_results(g), second = attention_results(g);
  for (std::size_t i = 0; i < first.size(); ++i) EXPECT_EQ(doubles(first[i]), doubles(second[i]));
}

}  // namespace
}  // namespace etna
