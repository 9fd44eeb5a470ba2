#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/nn/nn.h>
#include <etna/tensor/ops.h>

namespace etna::nn {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

double deviation(const Tensor& x) { return std::sqrt(mean(square(x.to(f64))).item<double>()); }

TEST(InitMore, DeviationsFollowTheFans) {
  manual_seed(1);
  Tensor x = empty({200, 50});
  EXPECT_NEAR(deviation(init::xavier_normal_(x, 2)), 2 * std::sqrt(2.0 / 250), 0.003);
  EXPECT_NEAR(deviation(init::kaiming_normal_(x, 0, init::FanMode::fan_out, "relu")), std::sqrt(2.0 / 200), 0.003);
  EXPECT_NEAR(deviation(init::kaiming_uniform_(x, 0, init::FanMode::fan_in, "tanh")), 5 / 3.0 / std::sqrt(50), 0.01);
  EXPECT_DOUBLE_EQ(init::calculate_gain("leaky_relu", 0.2), std::sqrt(2 / 1.04));
  EXPECT_THAT([] { init::calculate_gain("gelu"); }, ThrowsMessage<Error>(HasSubstr("calculate_gain: 'gelu'")));
}

TEST(InitMore, OrthogonalRowsOrColumns) {
  manual_seed(1);
  for (const Shape& shape : {Shape{3, 5}, Shape{5, 3}, Shape{4, 2, 2}}) {
    const Tensor q = init::orthogonal_(empty(shape), 2).reshape({shape[0], -1});
    const bool wide = q.size(0) <= q.size(1);
    const Tensor gram = wide ? matmul(q, q.t()) : matmul(q.t(), q);
    const std::vector<float> values = gram.to_vector<float>();
    const auto n = static_cast<std::size_t>(gram.size(0));
    for (std::size_t i = 0; i < n * n; ++i) EXPECT_NEAR(values[i], i % (n + 1) == 0 ? 4 : 0, 1e-5);
  }
}

TEST(InitMore, TruncatedNormalsStayInside) {
  manual_seed(1);
  Tensor x = init::trunc_normal_(empty({10000}), 1, 2, 0, 2);
  EXPECT_GE(min(x).item(), 0);
  EXPECT_LE(max(x).item(), 2);
  EXPECT_NEAR(mean(x).item(), 1, 0.03);
  init::trunc_normal_(x, 0, 1, 50, 51);
  EXPECT_GE(min(x).item(), 50) << "an interval that no draw hits";
}

TEST(InitMore, EyeDiracAndSparse) {
  manual_seed(1);
  EXPECT_EQ(init::eye_(empty({2, 3})).to_vector<float>(), (std::vector<float>{1, 0, 0, 0, 1, 0}));
  const Tensor w = init::dirac_(empty({4, 2, 3}), 2);
  EXPECT_EQ(sum(w).item(), 4);
  EXPECT_EQ(w.select(2, 1).to_vector<float>(), (std::vector<float>{1, 0, 0, 1, 1, 0, 0, 1}));
  const Tensor s = init::sparse_(empty({10, 6}), 0.25);
  for (float zeros : sum(eq(s, 0.0), 0).to_vector<float>()) EXPECT_EQ(zeros, 3) << "a quarter of ten, rounded up";
  EXPECT_THROW(init::eye_(empty({3})), ShapeError);
  EXPECT_THROW(init::dirac_(empty({3, 3})), ShapeError);
  EXPECT_THROW(init::dirac_(empty({3, 3, 3}), 2), ShapeError);
}

}  // namespace
}  // namespace etna::nn
