#include <limits>
#include <set>

#include <gtest/gtest.h>

#include <etna/device/device.h>
#include <etna/tensor/linalg.h>
#include <etna/tensor/ops.h>
#include <torch/cases.h>

namespace etna {
namespace {

using In = const TensorList&;

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
  return [=](In in) { return linalg::solve_triangular(in[0], in[1], upper, left, unit); };
}

const std::map<std::string, figures::Function>& calls() {
  constexpr double inf = std::numeric_limits<double>::infinity();
  static const std::map<std::string, figures::Function> all = {
      {"cholesky", [](In in) { return linalg::cholesky(symmetric(in[0])); }},
      {"cholesky upper", [](In in) { return linalg::cholesky(symmetric(in[0]), true); }},
      {"solve_triangular upper", triangular(true, true, false)},
      {"solve_triangular lower", triangular(false, true, false)},
      {"solve_triangular right", triangular(true, false, false)},
      {"solve_triangular unit", triangular(false, true, true)},
      {"solve", [](In in) { return linalg::solve(in[0], in[1]); }},
      {"solve vector", [](In in) { return linalg::solve(in[0], in[1]); }},
      {"solve vectors", [](In in) { return linalg::solve(in[0], in[1]); }},
      {"solve right", [](In in) { return linalg::solve(in[0], in[1], false); }},
      {"inv", [](In in) { return linalg::inv(in[0]); }},
      {"det", [](In in) { return linalg::det(in[0]); }},
      {"slogdet",
       [](In in) {
         const linalg::SignLogDet both = linalg::slogdet(in[0]);
         return stack({both.sign, both.logabsdet});
       }},
      {"lu", [](In in) { return lu_all(in[0]); }},
      {"qr", [](In in) { return linalg::qr(in[0]).Q; }},
      {"qr tall", [](In in) { return linalg::qr(in[0]).Q * 2.0 + 1.0; }},
      {"qr r tall", [](In in) { return sin(linalg::qr(in[0]).R); }},
      {"qr wide",
       [](In in) {
         const linalg::Qr qr = linalg::qr(in[0]);
         return matmul(qr.Q, sin(qr.R));
       }},
      {"svd", [](In in) { return svd_free(in[0], false); }},
      {"svd tall", [](In in) { return svd_free(in[0], false); }},
      {"svd wide", [](In in) { return svd_free(in[0], false); }},
      {"svd full", [](In in) { return svd_free(in[0], true); }},
      {"svdvals", [](In in) { return linalg::svdvals(in[0]); }},
      {"eigh", [](In in) { return eigh_free(in[0]); }},
      {"eigvalsh", [](In in) { return linalg::eigvalsh(symmetric(in[0])); }},
      {"pinv tall", [](In in) { return linalg::pinv(in[0]); }},
      {"pinv wide", [](In in) { return linalg::pinv(in[0]); }},
      {"lstsq", [](In in) { return linalg::lstsq(in[0], in[1]).solution; }},
      {"matrix_exp", [](In in) { return linalg::matrix_exp(in[0]); }},
      {"matrix_exp large", [](In in) { return linalg::matrix_exp(in[0]); }},
      {"norm", [](In in) { return linalg::norm(in[0]); }},
      {"vector_norm 1", [](In in) { return linalg::vector_norm(in[0], 1, 1); }},
      {"vector_norm 3",
       [](In in) {
         return linalg::vector_norm(in[0], 3, {0, 2}, true);
       }},
      {"vector_norm inf", [](In in) { return linalg::vector_norm(in[0], inf, -1); }},
      {"vector_norm -inf", [](In in) { return linalg::vector_norm(in[0], -inf, 0); }},
      {"vector_norm 0.5", [](In in) { return linalg::vector_norm(in[0], 0.5); }},
      {"matrix_norm fro", [](In in) { return linalg::matrix_norm(in[0]); }},
      {"matrix_norm nuc",
       [](In in) {
         return linalg::matrix_norm(in[0], "nuc", {0, 1});
       }},
      {"matrix_norm 1",
       [](In in) {
         return linalg::matrix_norm(in[0], 1, {-2, -1}, true);
       }},
      {"matrix_norm -2", [](In in) { return linalg::matrix_norm(in[0], -2); }},
      {"matrix_norm inf", [](In in) { return linalg::matrix_norm(in[0], inf); }},
      {"cond", [](In in) { return linalg::cond(in[0]); }},
      {"cond 1", [](In in) { return linalg::cond(in[0], 1); }},
      {"cholesky_solve", [](In in) { return linalg::cholesky_solve(in[0], tril(in[1])); }},
      {"cholesky_inverse", [](In in) { return linalg::cholesky_inverse(tril(in[0])); }},
      {"vecdot", [](In in) { return linalg::vecdot(in[0], in[1], 1); }},
  };
  return all;
}

TEST(TorchLinalg, ValuesAndGradientsInF64) {
  const nlohmann::json all = figures::load("linalg");
  for (const auto& [name, figure] : all.items()) {
    figures::expect_case(figure, calls().at(name), kCPU, f64, 1e-9, name);
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
        EXPECT_THROW(figures::expect_case(figure, calls().at(name), device, f32, 1, name), DeviceError) << name;
        if (name != "svd" && name != "qr wide") continue;  // all fall back in the same way
      }
      set_strict(before && !falls_back);
      figures::expect_case(figure, calls().at(name), device, f32, 2e-4, name + " on " + device.str());
      set_strict(before);
    }
  }
}

}  // namespace
}  // namespace etna
