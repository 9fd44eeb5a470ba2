#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/tensor/capture.h>
#include <etna/tensor/literal.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/linalg/linalg.h>

#include "ops/rows.h"

// Edges and errors of composed functions and of elementwise rows; figures are in tests/torch/.
namespace etna {
namespace {

using namespace op_tests;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(Gcd, WrapsAroundAtTheLeastNumberAndRefusesBool) {
  constexpr std::int64_t least = std::numeric_limits<std::int64_t>::min();
  EXPECT_EQ(gcd(from_vector<std::int64_t>({least, least, 0}), from_vector<std::int64_t>({6, -1, least}))
                .to_vector<std::int64_t>(),
            (std::vector<std::int64_t>{2, 1, least}));
  for (Device device : devices()) {
    for (DType t : {i64, i32, i8}) {
      const Tensor x = tensor({0, -12, 18}).to(t).to(device);
      EXPECT_EQ(gcd(x, 8).to_vector<int>(), (std::vector<int>{8, 4, 2})) << device.str() << name(t);
      EXPECT_EQ(lcm(x, 8).to_vector<int>(), (std::vector<int>{0, 24, 72})) << device.str() << name(t);
    }
  }
  EXPECT_THAT([] { gcd(ones({2}, boolean), ones({2}, boolean)); }, ThrowsMessage<DtypeError>(HasSubstr("not bool")));
  EXPECT_THROW(lcm(ones({2}), 2), DtypeError);
}

TEST(Special, RefusesWhatItCannotCompute) {
  EXPECT_THAT([] { nextafter(ones({2}, f16), 2); }, ThrowsMessage<DtypeError>(HasSubstr("takes f32 and f64")));
  EXPECT_THROW(polygamma(-1, ones({2})), ShapeError);
  EXPECT_THROW(mvlgamma(ones({2}), 0), ShapeError);
  EXPECT_THROW(frexp(arange(3)), DtypeError);
  for (Device device : devices()) {
    EXPECT_EQ(lgamma(arange(1, 5).to(device)).dtype(), f32);
    EXPECT_EQ(polygamma(1, ones({2}, {f16, device})).dtype(), f16);
    expect_close(fmax(tensor({static_cast<float>(kNaN), 1.0f}).to(device), 2), {2, 2}, 0);
    expect_close(heaviside(tensor({-1.0f, 0.0f, 3.0f}).to(device), 0.5), {0, 0.5, 1}, 0);
    expect_close(ldexp(tensor({0.5f}).to(device), tensor({128.0f}).to(device)), {0x1p127}, 0);
    EXPECT_EQ(isreal(ones({2}, device)).to_vector<int>(), (std::vector<int>{1, 1}));
  }
  EXPECT_EQ(float_power(arange(3), 2).dtype(), f64);
}

TEST(Diff, OfBoolAndOfNothing) {
  for (Device device : devices()) {
    EXPECT_EQ(diff(tensor({true, false, false}).to(device)).to_vector<int>(), (std::vector<int>{1, 0}));
    EXPECT_EQ(diff(zeros({2, 0}, device)).shape(), Shape({2, 0}));
    EXPECT_EQ(diff(zeros({3}, device), 0).shape(), Shape({3}));
  }
  EXPECT_THROW(diff(zeros({})), ShapeError);
  EXPECT_THROW(diff(zeros({3}), -1), ShapeError);
  EXPECT_THAT([] { gradient(zeros({2, 3}), 1, {}, 2); }, ThrowsMessage<ShapeError>(HasSubstr("fewer than 3")));
  EXPECT_THROW(gradient(zeros({3}), 1, {}, 3), ShapeError);
  EXPECT_THROW(gradient(zeros({3, 3}), std::vector<double>{1}), ShapeError);
  EXPECT_THROW(gradient(zeros({3}), std::vector<Tensor>{zeros({2})}), ShapeError);
  EXPECT_THROW(trapezoid(zeros({3}), zeros({2})), ShapeError);
  EXPECT_THROW(trapezoid(zeros({3}, boolean)), DtypeError);
}

TEST(Blocks, RefuseWhatTheyCannotJoinOrSplit) {
  EXPECT_THROW(block_diag({zeros({2, 2, 2})}), ShapeError);
  EXPECT_EQ(block_diag({}).shape(), Shape({1, 0}));
  EXPECT_EQ(block_diag({ones({1}, i64), ones({}, f32)}).dtype(), f32);
  EXPECT_THROW(tensor_split(zeros({}), 2), ShapeError);
  EXPECT_THROW(tensor_split(zeros({3}), 0), ShapeError);
  const std::vector<Tensor> parts = tensor_split(arange(3), std::vector<std::int64_t>{-9, 2, 1, 9});
  ASSERT_EQ(parts.size(), 5u);
  EXPECT_EQ(parts[1].numel() + 10 * parts[2].numel() + 100 * parts[3].numel(), 2 + 0 + 200);
  EXPECT_THROW(broadcast_to(zeros({3}), {2}), ShapeError);
  EXPECT_THROW(broadcast_tensors({zeros({3}), zeros({2})}), ShapeError);
  EXPECT_THROW(combinations(zeros({2, 2})), ShapeError);
  EXPECT_THROW(combinations(zeros({3}), -1), ShapeError);
  EXPECT_THROW(combinations(zeros({100000}), 5), ShapeError);
}

TEST(Covariance, RefusesWeightsThatDoNotFit) {
  EXPECT_THROW(cov(zeros({2, 2, 2})), ShapeError);
  EXPECT_THROW(cov(zeros({2, 3}), 1, ones({2}, i64)), ShapeError);
  EXPECT_THROW(cov(zeros({2, 3}), 1, ones({3})), DtypeError);
  EXPECT_THROW(cov(zeros({2, 3}), 1, {}, ones({3}, i64)), DtypeError);
  EXPECT_THROW(renorm(zeros({3}), 2, 0, 1), ShapeError);
  EXPECT_THROW(renorm(zeros({3, 2}), 0, 0, 1), ShapeError);
  EXPECT_THROW(renorm(zeros({3, 2}), 2, 0, -1), ShapeError);
}

TEST(IndexReduce, WritesInPlaceAndNamesWhatDoesNotFit) {
  for (Device device : devices()) {
    Tensor x = ones({3, 2}, device);
    index_reduce_(x, 0, tensor({2, 0, 2}).to(device), full({3, 2}, 4, device), "prod");
    expect_close(x, {4, 4, 1, 1, 16, 16}, 0);
  }
  EXPECT_THROW(index_reduce(ones({3, 2}), 0, tensor({0, 1}), ones({3, 2}), "prod"), ShapeError);
  EXPECT_THAT([] { index_reduce(ones({3}), 0, tensor({0}), ones({1}), "sum"); },
              ThrowsMessage<Error>(HasSubstr("wanted prod, mean, amax or amin")));
  EXPECT_THROW(index_reduce(ones({3}), 0, tensor({3}), ones({1}), "amax"), IndexError);
}

TEST(Unique, OfSlicesOfNothing) {
  EXPECT_EQ(unique(zeros({0, 3}), true, true, 0).values.shape(), Shape({0, 3}));
  EXPECT_THROW(unique(zeros({3, 0}), false, false, 0), ShapeError);
  EXPECT_THROW(unique(zeros({}), false, false, 0), ShapeError);
  EXPECT_EQ(unique(full({2, 2}, kNaN), false, false, 0).values.shape(), Shape({2, 2}));
}

TEST(GridSample, NamesWhatItTakes) {
  EXPECT_THROW(grid_sample(zeros({1, 1, 2, 2, 2}), zeros({1, 1, 1, 1, 3}), GridSampleMode::bicubic), ShapeError);
  EXPECT_THROW(grid_sample(zeros({1, 1, 2, 2, 2}), zeros({1, 1, 1, 1, 2})), ShapeError);
  EXPECT_EQ(grid_sample(zeros({2, 3, 2, 2, 2}), zeros({2, 4, 0, 6, 3})).shape(), Shape({2, 3, 4, 0, 6}));
}

TEST(Eig, VectorsAreScaledByTheirValues) {
  const Tensor a = random_tensor({2, 5, 5}, f64, 3);
  const linalg::Eig e = linalg::eig(a);
  const Tensor &lr = e.eigenvalues.real, &li = e.eigenvalues.imag, &vr = e.eigenvectors.real, &vi = e.eigenvectors.imag;
  const Tensor real = vr * lr.unsqueeze(-2) - vi * li.unsqueeze(-2),
               imag = vr * li.unsqueeze(-2) + vi * lr.unsqueeze(-2);
  expect_close(matmul(a, vr) - real, std::vector<double>(50, 0), 0, 1e-12);
  expect_close(matmul(a, vi) - imag, std::vector<double>(50, 0), 0, 1e-12);
  const linalg::Complex turn = linalg::eigvals(tensor({{0.0, -1.0}, {1.0, 0.0}}));
  expect_close(turn.real, {0, 0}, 0, 1e-12);
  expect_close(turn.imag, {-1, 1}, 1e-12);
  EXPECT_THROW(linalg::eig(zeros({2, 3})), ShapeError);
  EXPECT_THROW(linalg::eig(full({2, 2}, kNaN)), LinalgError);
  EXPECT_EQ(linalg::eigvals(zeros({0, 0})).real.shape(), Shape({0}));
}

TEST(HouseholderProduct, NamesWhatDoesNotFit) {
  EXPECT_THROW(linalg::householder_product(zeros({2, 3}), zeros({2})), ShapeError);
  EXPECT_THROW(linalg::householder_product(zeros({3, 2}), zeros({3})), ShapeError);
  EXPECT_THROW(linalg::householder_product(zeros({3, 2}), zeros({})), ShapeError);
  EXPECT_EQ(linalg::householder_product(zeros({3, 2}), zeros({0})).shape(), Shape({3, 2}));
}

}  // namespace
}  // namespace etna
