#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/autograd/autograd.h>
#include <etna/tensor/capture.h>
#include <etna/tensor/einsum.h>
#include <etna/tensor/linalg.h>
#include <etna/tensor/ops.h>

#include "rows.h"

namespace etna {
namespace {

using namespace op_tests;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(Linalg, NamesTheMatrixThatIsSingular) {
  Tensor a = random_tensor({2, 3, 3, 3}, f64) + detail::identity(3, f64) * 4.0;
  a.select(0, 1).select(0, 2).zero_();
  const auto said = HasSubstr("matrix 5 of the batch [2, 3, 3, 3] is singular");
  EXPECT_THAT([&] { linalg::inv(a); }, ThrowsMessage<LinalgError>(said));
  EXPECT_THAT([&] { linalg::solve(a, ones({3}, f64)); }, ThrowsMessage<LinalgError>(said));
  EXPECT_THAT([&] { linalg::cholesky(a - 9.0); }, ThrowsMessage<LinalgError>(HasSubstr("is not positive definite")));
  EXPECT_THAT(
      [&] {
        linalg::solve_triangular(a, ones({3, 1}, f64), true);
      },
      ThrowsMessage<LinalgError>(HasSubstr("has a zero on its diagonal")));
  EXPECT_EQ(linalg::det(a).to_vector<double>()[5], 0);
  EXPECT_EQ(linalg::slogdet(a).logabsdet.to_vector<double>()[5], -std::numeric_limits<double>::infinity());
  EXPECT_EQ(linalg::slogdet(a).sign.to_vector<double>()[5], 0);
  EXPECT_EQ(linalg::matrix_rank(a).to_vector<double>(), (std::vector<double>{3, 3, 3, 3, 3, 0}));
}

TEST(Linalg, RefusesWhatIsNoMatrix) {
  EXPECT_THAT([] { linalg::inv(ones({2, 3})); }, ThrowsMessage<ShapeError>(HasSubstr("inv: [2, 3] is not square")));
  EXPECT_THAT([] { linalg::svd(ones({3})); }, ThrowsMessage<ShapeError>(HasSubstr("svd: [3] has no matrix")));
  EXPECT_THAT([] { linalg::qr(ones({2, 2}, f16)); }, ThrowsMessage<DtypeError>(HasSubstr("qr: the matrix holds f16")));
  EXPECT_THAT(
      [] {
        linalg::solve(ones({2, 2}), ones({3, 2}));
      },
      ThrowsMessage<ShapeError>(HasSubstr("numbers of rows")));
  EXPECT_THAT(
      [] {
        linalg::solve(ones({2, 2}), ones({2, 2}, f64));
      },
      ThrowsMessage<DtypeError>(HasSubstr("one dtype")));
  EXPECT_THAT([] { linalg::matrix_norm(ones({2, 2}), 3); }, ThrowsMessage<ShapeError>(HasSubstr("no norm of order 3")));
  EXPECT_THROW(linalg::inv(Tensor()), UndefinedTensor);
}

TEST(Linalg, NanAndInfinityEndInAnErrorOrInNan) {
  for (double bad : {kNaN, std::numeric_limits<double>::infinity()}) {
    const Tensor a = full({3, 3}, bad, f64);
    EXPECT_THROW(linalg::svd(a), LinalgError);
    EXPECT_THROW(linalg::eigh(a), LinalgError);
    EXPECT_THROW(linalg::pinv(a), LinalgError);
    EXPECT_THROW(linalg::matrix_exp(a), LinalgError);
    EXPECT_THROW(linalg::cholesky(a), LinalgError);
    EXPECT_TRUE(std::isnan(linalg::det(a).item<double>()));
    linalg::qr(a), linalg::lu_factor(a), linalg::inv(a);
  }
}

TEST(Linalg, MatricesWithoutElements) {
  EXPECT_EQ(linalg::det(ones({2, 0, 0})).to_vector<double>(), (std::vector<double>{1, 1}));
  EXPECT_EQ(linalg::inv(ones({0, 0})).shape(), (Shape{0, 0}));
  EXPECT_EQ(linalg::qr(ones({3, 0}), linalg::QrMode::complete).Q.to_vector<double>(),
            (std::vector<double>{1, 0, 0, 0, 1, 0, 0, 0, 1}));
  EXPECT_EQ(linalg::svd(ones({2, 0})).U.to_vector<double>(), (std::vector<double>{1, 0, 0, 1}));
  EXPECT_EQ(linalg::svd(ones({2, 0}), false).U.shape(), (Shape{2, 0}));
  EXPECT_EQ(linalg::pinv(ones({0, 3})).shape(), (Shape{3, 0}));
  EXPECT_EQ(linalg::solve(ones({0, 2, 2}), ones({2, 3})).shape(), (Shape{0, 2, 3}));
  EXPECT_EQ(linalg::lu_factor(ones({0, 3})).pivots.shape(), (Shape{0}));
}

TEST(Linalg, FactorsMultiplyBack) {
  for (const Shape& shape : {Shape{2, 4, 4}, Shape{5, 3}, Shape{3, 5}, Shape{1, 1}}) {
    const Tensor a = random_tensor(shape, f64);
    const auto near = [&](const Tensor& got) { expect_close(got, a.to_vector<double>(), 1e-12, 1e-12, str(shape)); };
    const linalg::Lu lu = linalg::lu(a);
    near(matmul(matmul(lu.P, lu.L), lu.U));
    for (auto mode : {linalg::QrMode::reduced, linalg::QrMode::complete}) {
      const linalg::Qr qr = linalg::qr(a, mode);
      near(matmul(qr.Q, qr.R));
    }
    const linalg::Svd thin = linalg::svd(a, false), full = linalg::svd(a);
    near(matmul(thin.U * thin.S.unsqueeze(-2), thin.Vh));
    EXPECT_EQ(full.U.size(-1), shape[shape.rank() - 2]);
    EXPECT_EQ(full.Vh.size(-2), shape[shape.rank() - 1]);
    near(matmul(matmul(a, linalg::pinv(a)), a));
  }
  EXPECT_FALSE(linalg::qr(ones({2, 2}), linalg::QrMode::r).Q.defined());
}

TEST(Linalg, SolvesLargeAndSmallSystemsOnEveryDevice) {
  for (Device device : devices()) {
    for (std::int64_t n : {1, 5, 64}) {
      const Tensor a = random_tensor({3, n, n}, f32) + detail::identity(n, f32) * 16.0,
                   x = random_tensor({3, n, 3}, f32);
      const Tensor b = matmul(a, x), there = placed(a, device);
      const auto near = [&](const Tensor& got) { expect_close(got, x.to_vector<double>(), 1e-4, 1e-4, device.str()); };
      near(linalg::solve(there, placed(b, device)));
      near(linalg::lu_solve(linalg::lu_factor(there), placed(b, device)));
      const Tensor spd = matmul(there, there.t());
      near(linalg::cholesky_solve(matmul(spd, placed(x, device)), linalg::cholesky(spd)));
    }
  }
}

TEST(Linalg, LstsqGivesRanksAndResiduals) {
  const Tensor a = from_vector<double>({1, 0, 0, 1, 1, 1}, {3, 2}), b = from_vector<double>({1, 2, 4}, {3, 1});
  const linalg::Lstsq found = linalg::lstsq(a, b);
  expect_close(found.solution, {4.0 / 3, 7.0 / 3}, 1e-12, 1e-12);
  expect_close(found.residuals, {1.0 / 3}, 1e-12, 1e-12);
  EXPECT_EQ(found.rank.item<int>(), 2);
  EXPECT_EQ(linalg::lstsq(a.t(), ones({2, 1}, f64)).residuals.numel(), 0);
}

TEST(Linalg, ANormOfZeroHasTheGradientZero) {
  for (double ord : {2.0, 3.0, 1.0}) {
    Tensor x = zeros({3}, f64).requires_grad_();
    linalg::vector_norm(x, ord).backward();
    EXPECT_THAT(x.grad().to_vector<double>(), ElementsAre(0, 0, 0)) << ord;
  }
  EXPECT_EQ(linalg::vector_norm(from_vector<float>({0, 2, 0, kNaN}), 0).item(), 2);
  EXPECT_EQ(linalg::vector_norm(full({4}, 300, f16)).item(), 600) << "squares are not rounded to f16";
  EXPECT_EQ(linalg::norm(from_vector<double>({3, 4})).item(), 5);
  EXPECT_EQ(linalg::norm(ones({2, 2, 3, 3}), 1, {2, 3}).shape(), (Shape{2, 2}));
}

TEST(Linalg, TensorsAreMatricesOfTheirDimensions) {
  const Tensor a = random_tensor({2, 3, 6}, f64), b = random_tensor({2, 3}, f64, 2);
  const Tensor x = linalg::tensorsolve(a, b);
  expect_close(tensordot(a, x, 1), b.to_vector<double>(), 1e-10, 1e-10);
  expect_close(tensordot(linalg::tensorinv(a), b, 2), x.to_vector<double>(), 1e-10, 1e-10);
  EXPECT_THROW(linalg::tensorinv(a, 1), ShapeError);
  EXPECT_THROW(linalg::tensorsolve(a, a), ShapeError);
  EXPECT_EQ(linalg::vander(from_vector<double>({2, 3}), 3).to_vector<double>(),
            (std::vector<double>{1, 2, 4, 1, 3, 9}));
  EXPECT_NEAR(linalg::logdet(detail::identity(3, f64) * 2.0).item<double>(), 3 * std::log(2), 1e-12);
  EXPECT_TRUE(std::isnan(linalg::logdet(-detail::identity(3, f64)).item<double>()));
}

TEST(Linalg, IsCapturedOnTheCpu) {
  const Tensor a = random_tensor({2, 3, 3}, f64) + detail::identity(3, f64) * 3.0;
  auto step = capture([&] {
    const linalg::Svd f = linalg::svd(a, false);
    return std::vector<Tensor>{linalg::inv(a), f.S, linalg::eigvalsh(a)};
  });
  const std::vector<double> first = step()[1].to_vector<double>();
  step();
  EXPECT_EQ(step()[1].to_vector<double>(), first);
}

}  // namespace
}  // namespace etna
