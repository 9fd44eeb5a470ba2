#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/autograd/autograd.h>
#include <etna/tensor/capture.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/einsum/einsum.h>
#include <etna/tensor/ops/linalg/linalg.h>

#include <ops/rows.h>

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
  EXPECT_THAT(
      [] {
        linalg::matrix_norm(ones({2, 2}), 3);
      },
      ThrowsMessage<ShapeError>(HasSubstr("order is 3; wanted 1, 2, inf")));
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

TEST(Linalg, FactorsOfMatricesOfSeveralBlocksMultiplyBack) {
  for (DType dtype : {f32, f64}) {
    const double tolerance = dtype == f64 ? 1e-11 : 1e-3;
    for (const Shape& shape : {Shape{31, 31}, Shape{33, 33}, Shape{2, 100, 100}, Shape{100, 40}, Shape{40, 100}}) {
      const Tensor a = random_tensor(shape, dtype).t().contiguous().t();
      const auto near = [&](const Tensor& got, const Tensor& wanted) {
        expect_close(got, wanted.to_vector<double>(), tolerance, tolerance, str(shape));
      };
      const linalg::Lu lu = linalg::lu(a);
      near(matmul(matmul(lu.P, lu.L), lu.U), a);
      const linalg::Qr qr = linalg::qr(a, linalg::QrMode::complete);
      near(matmul(qr.Q, qr.R), a);
      near(matmul(qr.Q.t(), qr.Q), zeros_like(qr.Q) + detail::identity(qr.Q.size(-1), dtype));
      const linalg::Svd svd = linalg::svd(a, false);
      near(matmul(svd.U * svd.S.unsqueeze(-2), svd.Vh), a);
      if (shape.back() != shape[shape.rank() - 2]) continue;
      const Tensor spd = matmul(a, a.t()) + detail::identity(shape.back(), dtype), l = linalg::cholesky(spd);
      near(matmul(l, l.t()), spd);
      near(l, tril(l));
      near(matmul(spd, linalg::solve(spd, a)), a);
      for (bool upper : {false, true}) {
        for (bool unit : {false, true}) {
          const Tensor t = l * (unit ? 0.1 : 1.0), x = upper ? t.t() : t;
          const Tensor whole =
              unit ? x - x * detail::identity(shape.back(), dtype) + detail::identity(shape.back(), dtype) : x;
          near(matmul(whole, linalg::solve_triangular(x, a, upper, true, unit)), a);
        }
      }
      const linalg::Eigh eigh = linalg::eigh(spd);
      near(matmul(eigh.eigenvectors * eigh.eigenvalues.unsqueeze(-2), eigh.eigenvectors.t()), spd);
      const auto [values, v] = linalg::eig(a);
      near(matmul(a, v.real), v.real * values.real.unsqueeze(-2) - v.imag * values.imag.unsqueeze(-2));
      near(matmul(a, v.imag), v.real * values.imag.unsqueeze(-2) + v.imag * values.real.unsqueeze(-2));
      near(sum(square(v.real) + square(v.imag), -2), ones_like(values.real));
    }
  }
}

TEST(Linalg, TheExponentialIsAccurateForEveryNorm) {
  // Norms that choose each order of the approximant, and squarings. exp of [[0, -x], [x, 0]] is a rotation by x.
  for (double x : {0.0, 1e-300, 1e-8, 0.01, 0.2, 0.9, 2.0, 5.0, 40.0}) {
    const Tensor turn = linalg::matrix_exp(from_vector<double>({0, -x, x, 0}, {2, 2}));
    expect_close(turn, {std::cos(x), -std::sin(x), std::sin(x), std::cos(x)}, 1e-13, 1e-13, std::to_string(x));
    const Tensor jordan = linalg::matrix_exp(from_vector<double>({x, 1, 0, x}, {2, 2}));
    expect_close(jordan * std::exp(-x), {1, 1, 0, 1}, 1e-13, 1e-13, std::to_string(x));
  }
  const Tensor a = random_tensor({50, 50}, f64);
  expect_close(matmul(linalg::matrix_exp(a), linalg::matrix_exp(-a)),
               (zeros({50, 50}, f64) + detail::identity(50, f64)).to_vector<double>(), 1e-9, 1e-9);
}

TEST(Linalg, MatricesFarFromOneAndOfLowRank) {
  for (double size : {1e-300, 1e-160, 1e160, 1e300}) {
    const Tensor a = random_tensor({5, 3}, f64) * size, square = a.slice(-2, 0, 3);
    const auto near = [&](const Tensor& got, const Tensor& wanted) {
      expect_close(got / size, (wanted / size).to_vector<double>(), 1e-12, 1e-12, std::to_string(size));
    };
    const linalg::Svd svd = linalg::svd(a, false);
    near(matmul(svd.U * svd.S.unsqueeze(-2), svd.Vh), a);
    const linalg::Qr qr = linalg::qr(a);
    near(matmul(qr.Q, qr.R), a);
    near(matmul(square, linalg::solve(square, ones({3, 1}, f64) * size)), ones({3, 1}, f64) * size);
    const Tensor symmetric = square + square.t();
    const linalg::Eigh eigh = linalg::eigh(symmetric);
    near(matmul(eigh.eigenvectors * eigh.eigenvalues.unsqueeze(-2), eigh.eigenvectors.t()), symmetric);
  }
  const Tensor low = ones({4, 6}, f64), zero = zeros({3, 3}, f64);
  EXPECT_EQ(linalg::matrix_rank(low).item<int>(), 1);
  expect_close(linalg::pinv(low), std::vector<double>(24, 1.0 / 24), 1e-15, 1e-15);
  EXPECT_EQ(linalg::svdvals(zero).to_vector<double>(), std::vector<double>(3));
  EXPECT_EQ(linalg::eigvalsh(zero).to_vector<double>(), std::vector<double>(3));
  EXPECT_EQ(linalg::eigvals(zero).real.to_vector<double>(), std::vector<double>(3));
  EXPECT_EQ(linalg::pinv(zero).to_vector<double>(), std::vector<double>(9));
  Tensor batch = random_tensor({4, 3, 3}, f32);
  batch.select(0, 2).fill_(kNaN);
  EXPECT_THAT([&] { linalg::svdvals(batch); },
              ThrowsMessage<LinalgError>(HasSubstr("matrix 2 of the batch [4, 3, 3]")));
  EXPECT_THAT([&] { linalg::eigvals(batch); },
              ThrowsMessage<LinalgError>(HasSubstr("matrix 2 of the batch [4, 3, 3]")));
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

TEST(Linalg, TheDeterminantOfASingularMatrixHasAGradient) {
  const auto gradient = [](Tensor a) {
    a.requires_grad_();
    linalg::det(a).sum().backward();
    return a.grad();
  };
  Tensor a = from_vector<double>({1, 2, 2, 4}, {2, 2});
  expect_close(gradient(a.clone()), {4, -2, -2, 1}, 1e-12, 1e-12);
  // Entry i, j is ± the determinant without row i and column j, of matrices of every rank.
  for (Device device : devices()) {
    const DType t = device.is_cpu() ? f64 : f32;
    for (std::int64_t n : {1, 2, 3, 6}) {
      for (std::int64_t rank = 0; rank <= n; ++rank) {
        const Tensor x = matmul(random_tensor({2, n, rank}, t, 7), random_tensor({2, rank, n}, t, 8));
        std::vector<double> wanted;
        for (std::int64_t b = 0; b < 2; ++b) {
          for (std::int64_t i = 0; i < n; ++i) {
            for (std::int64_t j = 0; j < n; ++j) {
              const Tensor rows = cat({x[b].slice(0, 0, i), x[b].slice(0, i + 1, n)});
              const Tensor minor = cat({rows.slice(1, 0, j), rows.slice(1, j + 1, n)}, 1);
              wanted.push_back(((i + j) % 2 == 0 ? 1 : -1) * linalg::det(minor.to(f64)).item<double>());
            }
          }
        }
        const double close = t == f64 ? 1e-10 : 2e-3;
        expect_close(gradient(x.to(device).clone()), wanted, close, close, device.str() + " " + std::to_string(rank));
      }
    }
  }
  Tensor zero = zeros({3, 3}, f64), large = random_tensor({70, 70}, f64) * 0.2;
  expect_close(gradient(zero), std::vector<double>(9, 0), 0);
  large[3] = large[5];
  expect_close(matmul(gradient(large.clone()), large.t()), std::vector<double>(4900, 0), 0, 1e-3, "det A · identity");
  Tensor b = from_vector<double>({1, 2, 2, 4}, {2, 2}).requires_grad_();
  EXPECT_THROW(linalg::slogdet(b).logabsdet.backward(), LinalgError);
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
