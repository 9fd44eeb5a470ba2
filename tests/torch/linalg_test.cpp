#include <limits>
#include <set>

#include <gtest/gtest.h>

#include <etna/device/device.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/linalg/linalg.h>
#include <torch/cases.h>

namespace etna {
namespace {

using LinalgIn = const TensorList&;

Tensor symmetric(const Tensor& a) { return (a + a.t()) * 0.5; }
Tensor svd_free(const Tensor& a, bool full) {
  const linalg::Svd all = linalg::svd(a, full);
  return matmul(all.U * sqrt(all.S).unsqueeze(-2), all.Vh);
}
Tensor eigh_free(const Tensor& a) {
  const auto [l, v] = linalg::eigh(symmetric(a));
  return matmul(v * (l * l * l).unsqueeze(-2), v.t()) + square(v);
}
Tensor lu_all(const Tensor& a) {
  const linalg::Lu all = linalg::lu(a);
  return matmul(all.P, all.L * 2.0) + sin(all.U);
}
figures::Function triangular(bool upper, bool left, bool unit) {
  return [=](LinalgIn in) { return linalg::solve_triangular(in[0], in[1], upper, left, unit); };
}

const std::map<std::string, figures::Function>& linalg_calls() {
  constexpr double inf = std::numeric_limits<double>::infinity();
  static const std::map<std::string, figures::Function> all = {
      {"cholesky", [](LinalgIn in) { return linalg::cholesky(symmetric(in[0])); }},
      {"cholesky upper", [](LinalgIn in) { return linalg::cholesky(symmetric(in[0]), true); }},
      {"solve_triangular upper", triangular(true, true, false)},
      {"solve_triangular lower", triangular(false, true, false)},
      {"solve_triangular right", triangular(true, false, false)},
      {"solve_triangular unit", triangular(false, true, true)},
      {"solve", [](LinalgIn in) { return linalg::solve(in[0], in[1]); }},
      {"solve vector", [](LinalgIn in) { return linalg::solve(in[0], in[1]); }},
      {"solve vectors", [](LinalgIn in) { return linalg::solve(in[0], in[1]); }},
      {"solve right", [](LinalgIn in) { return linalg::solve(in[0], in[1], false); }},
      {"inv", [](LinalgIn in) { return linalg::inv(in[0]); }},
      {"det", [](LinalgIn in) { return linalg::det(in[0]); }},
      {"slogdet",
       [](LinalgIn in) {
         const linalg::SignLogDet both = linalg::slogdet(in[0]);
         return stack({both.sign, both.logabsdet});
       }},
      {"lu", [](LinalgIn in) { return lu_all(in[0]); }},
      {"qr", [](LinalgIn in) { return linalg::qr(in[0]).Q; }},
      {"qr tall", [](LinalgIn in) { return linalg::qr(in[0]).Q * 2.0 + 1.0; }},
      {"qr r tall", [](LinalgIn in) { return sin(linalg::qr(in[0]).R); }},
      {"qr wide",
       [](LinalgIn in) {
         const linalg::Qr qr = linalg::qr(in[0]);
         return matmul(qr.Q, sin(qr.R));
       }},
      {"svd", [](LinalgIn in) { return svd_free(in[0], false); }},
      {"svd tall", [](LinalgIn in) { return svd_free(in[0], false); }},
      {"svd wide", [](LinalgIn in) { return svd_free(in[0], false); }},
      {"svd full", [](LinalgIn in) { return svd_free(in[0], true); }},
      {"svdvals", [](LinalgIn in) { return linalg::svdvals(in[0]); }},
      {"eigh", [](LinalgIn in) { return eigh_free(in[0]); }},
      {"eigvalsh", [](LinalgIn in) { return linalg::eigvalsh(symmetric(in[0])); }},
      {"pinv tall", [](LinalgIn in) { return linalg::pinv(in[0]); }},
      {"pinv wide", [](LinalgIn in) { return linalg::pinv(in[0]); }},
      {"lstsq", [](LinalgIn in) { return linalg::lstsq(in[0], in[1]).solution; }},
      {"matrix_exp", [](LinalgIn in) { return linalg::matrix_exp(in[0]); }},
      {"matrix_exp large", [](LinalgIn in) { return linalg::matrix_exp(in[0]); }},
      {"norm", [](LinalgIn in) { return linalg::norm(in[0]); }},
      {"vector_norm 1", [](LinalgIn in) { return linalg::vector_norm(in[0], 1, 1); }},
      {"vector_norm 3",
       [](LinalgIn in) {
         return linalg::vector_norm(in[0], 3, {0, 2}, true);
       }},
      {"vector_norm inf", [](LinalgIn in) { return linalg::vector_norm(in[0], inf, -1); }},
      {"vector_norm -inf", [](LinalgIn in) { return linalg::vector_norm(in[0], -inf, 0); }},
      {"vector_norm 0.5", [](LinalgIn in) { return linalg::vector_norm(in[0], 0.5); }},
      {"matrix_norm fro", [](LinalgIn in) { return linalg::matrix_norm(in[0]); }},
      {"matrix_norm nuc",
       [](LinalgIn in) {
         return linalg::matrix_norm(in[0], "nuc", {0, 1});
       }},
      {"matrix_norm 1",
       [](LinalgIn in) {
         return linalg::matrix_norm(in[0], 1, {-2, -1}, true);
       }},
      {"matrix_norm -2", [](LinalgIn in) { return linalg::matrix_norm(in[0], -2); }},
      {"matrix_norm inf", [](LinalgIn in) { return linalg::matrix_norm(in[0], inf); }},
      {"cond", [](LinalgIn in) { return linalg::cond(in[0]); }},
      {"cond 1", [](LinalgIn in) { return linalg::cond(in[0], 1); }},
      {"cholesky_solve", [](LinalgIn in) { return linalg::cholesky_solve(in[0], tril(in[1])); }},
      {"cholesky_inverse", [](LinalgIn in) { return linalg::cholesky_inverse(tril(in[0])); }},
      {"vecdot", [](LinalgIn in) { return linalg::vecdot(in[0], in[1], 1); }},
  };
  return all;
}

TEST(TorchLinalg, ValuesAndGradientsInF64) {
  const nlohmann::json all = figures::load("linalg");
  for (const auto& [name, figure] : all.items()) {
    figures::expect_case(figure, linalg_calls().at(name), kCPU, f64, 1e-9, name);
  }
}

// Those without a kernel fall back, where that is allowed.
const std::set<std::string> kOnTheCpu = {
    "qr",       "qr tall",        "qr r tall",  "qr wide",         "svd",
    "svd tall", "svd wide",       "svd full",   "svdvals",         "eigh",
    "eigvalsh", "cond",           "pinv tall",  "pinv wide",       "matrix_norm nuc",
    "lstsq",    "matrix_norm -2", "matrix_exp", "matrix_exp large"};

TEST(TorchLinalg, ValuesAndGradientsInF32OnEveryDevice) {
  const nlohmann::json all = figures::load("linalg");
  const bool before = strict();
  for (Device device : figures::devices()) {
    for (const auto& [name, figure] : all.items()) {
      const bool falls_back = kOnTheCpu.contains(name) && !device.is_cpu();
      if (falls_back) {
        EXPECT_THROW(figures::expect_case(figure, linalg_calls().at(name), device, f32, 1, name), DeviceError) << name;
        if (name != "svd" && name != "qr wide") continue;  // all fall back in the same way
      }
      set_strict(before && !falls_back);
      figures::expect_case(figure, linalg_calls().at(name), device, f32, 2e-4, name + " on " + device.str());
      set_strict(before);
    }
  }
}

}  // namespace
}  // namespace etna
