#include <cmath>

#include <gmock/gmock.h>

#include <etna/autograd/autograd.h>
#include <etna/tensor/capture.h>
#include <etna/tensor/ops.h>

#include "nn/on_device.h"
#include "ops/rows.h"

// Attention whose values have another head size than queries and keys.
namespace etna {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class AttentionValues : public OnDevice {};
ETNA_ON_EVERY_DEVICE(AttentionValues);

/// @param k, v of as many heads as q
Tensor plain_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask, bool causal) {
  Tensor s = matmul(q, k.t()) / std::sqrt(static_cast<double>(q.size(-1)));
  if (mask.defined()) s = masked_fill(s, logical_not(mask), -INFINITY);
  if (causal) s = masked_fill(s, eq(tril(ones({q.size(-2), k.size(-2)}, q.device())), 0.0), -INFINITY);
  return matmul(softmax(s, -1), v);
}

TEST_P(AttentionValues, OfAnyHeadSize) {
  for (std::int64_t size : {0, 1, 3, 8, 21, 130}) {
    for (bool causal : {false, true}) {
      const Tensor mask = causal ? Tensor() : gt(op_tests::random_tensor({5, 7}, f32, 9), -1.5).to(device());
      const auto draw = [&](Shape shape, unsigned seed) {
        return op_tests::random_tensor(shape, f32, seed, -1, 1).to(device()).requires_grad_();
      };
      const TensorList in = {draw({2, 2, 5, 8}, 1), draw({2, 2, 7, 8}, 2), draw({2, 2, 7, size}, 3)};
      const auto gradients = [&](const Tensor& y) {
        const Tensor w = cos(cumsum(ones({y.numel()}, device()), 0)).reshape(y.shape());
        return autograd::grad(TensorList{y}, in, TensorList{w});
      };
      const auto run = [&] { return scaled_dot_product_attention(in[0], in[1], in[2], mask, causal); };
      const Tensor y = run(), wanted = plain_attention(in[0], in[1], in[2], mask, causal);
      EXPECT_EQ(y.shape(), (Shape{2, 2, 5, size}));
      expect_near(y.detach(), wanted.detach(), 1e-5);
      const TensorList g = gradients(y), wanted_g = gradients(wanted);
      for (std::size_t i = 0; i < 3; ++i) expect_near(g[i], wanted_g[i], 2e-5);
      auto step = capture([&] { return gradients(run())[1].clone(); }, {.device = device()});
      for (int i = 0; i < 3; ++i) expect_near(step(), wanted_g[1], 2e-5);
    }
  }
}

TEST_P(AttentionValues, WithGroupedHeadsAndAScale) {
  const auto draw = [&](Shape shape, unsigned seed) {
    return op_tests::random_tensor(shape, f32, seed, -1, 1).to(device());
  };
  const Tensor q = draw({4, 5, 8}, 1), k = draw({2, 7, 8}, 2), v = draw({2, 7, 3}, 3);
  const auto twice = [](const Tensor& x) { return repeat_interleave(x, 2, 0); };
  expect_near(scaled_dot_product_attention(q, k, v, {}, false, 0.7),
              plain_attention(q * (0.7 * std::sqrt(8.0)), twice(k), twice(v), {}, false), 1e-5);
}

TEST(AttentionOfValues, SecondDerivativesAndErrors) {
  const auto draw = [&](Shape shape, unsigned seed) {
    return op_tests::random_tensor(shape, f64, seed, -1, 1).requires_grad_();
  };
  for (std::int64_t size : {2, 5}) {
    const auto f = [](const TensorList& in) {
      return TensorList{scaled_dot_product_attention(in[0], in[1], in[2], {}, true)};
    };
    EXPECT_EQ(
        autograd::gradcheck(f, {draw({1, 3, 3}, 1), draw({1, 3, 3}, 2), draw({1, 3, size}, 3)}, {.second_order = true}),
        "");
  }
  const Tensor q = ones({1, 2, 4});
  EXPECT_THAT(
      [&] {
        scaled_dot_product_attention(q, ones({1, 2, 3}), ones({1, 2, 4}));
      },
      ThrowsMessage<ShapeError>(HasSubstr("wanted q [..., H, T, D], k [..., G, S, D] and v [..., G, S, E]")));
  EXPECT_THROW(scaled_dot_product_attention(q, ones({1, 3, 4}), ones({1, 2, 2})), ShapeError);
  EXPECT_THAT(
      [&] {
        scaled_dot_product_attention(q, ones({1, 2, 4}), ones({1, 2, 257}));
      },
      ThrowsMessage<ShapeError>(HasSubstr("the head size of v is 257")));
}

}  // namespace
}  // namespace etna
