#include <algorithm>

#include <conformance/samples.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/einsum/einsum.h>
#include <etna/tensor/ops/linalg/linalg.h>

namespace etna::conformance {
namespace {

Tensor with_diagonal(const Tensor& a, double by) {
  return a + detail::identity(a.size(-1), {a.dtype(), a.device()}) * by;
}
Tensor positive(const Tensor& a) { return with_diagonal(matmul(a, a.t()), 2); }
Tensor symmetric(const Tensor& a) { return a + a.t(); }
/// Far from singular, with eigenvalues and singular values apart.
Tensor spread(const Tensor& a) {
  const std::int64_t k = std::min(a.size(-1), a.size(-2));
  const Tensor steps = cumsum(ones({k}, {a.dtype(), a.device()}), 0) * 3.0;
  const Tensor diagonal = tril(triu(ones({a.size(-2), a.size(-1)}, {a.dtype(), a.device()})));
  return a + (a.size(-2) == k ? diagonal * steps.unsqueeze(1) : diagonal * steps);
}

}  // namespace

std::vector<Sample> samples_in_linalg() {
  using In = const TensorList&;
  std::vector<Sample> all;
  const auto add = [&](const char* op, const char* name, std::vector<Shape> shapes, auto call, bool on_gpu) -> Sample& {
    Sample sample(op, name);
    for (const Shape& shape : shapes) sample.in(shape, -1, 1);
    sample.in_dtypes({f64, f32}).calls(call).looser(20);
    if (!on_gpu) sample.without_kernel({f32});
    all.push_back(sample);
    return all.back();
  };
  const auto squares = [&](const char* op, auto call, bool on_gpu) {
    add(op, "matrix", {{3, 3}}, call, on_gpu);
    add(op, "batch", {{2, 5, 5}}, call, on_gpu).gradients(Gradients::first);
    add(op, "no matrices", {{0, 3, 3}}, call, on_gpu);
  };
  squares(
      "cholesky", [](In in) { return linalg::cholesky(positive(in[0])); }, true);
  squares(
      "inv", [](In in) { return linalg::inv(spread(in[0])); }, true);
  squares(
      "det", [](In in) { return linalg::det(with_diagonal(in[0], 2)); }, true);
  all[all.size() - 3].covers({"cofactor"});
  squares(
      "slogdet", [](In in) { return linalg::slogdet(with_diagonal(in[0], -3)).logabsdet; }, true);
  squares(
      "lu_factor",
      [](In in) {
        const linalg::LuFactor f = linalg::lu_factor(spread(in[0]));
        return TensorList{f.LU, f.pivots, f.permutation};
      },
      true);
  squares(
      "eig",
      [](In in) {
        const linalg::Eig e = linalg::eig(spread(in[0]));
        return TensorList{e.eigenvalues.real, square(e.eigenvectors.real) + square(e.eigenvectors.imag)};
      },
      false);
  squares(
      "eigh",
      [](In in) {
        const linalg::Eigh e = linalg::eigh(symmetric(spread(in[0])));
        return TensorList{e.eigenvalues, square(e.eigenvectors)};
      },
      false);
  squares(
      "matrix_exp", [](In in) { return linalg::matrix_exp(in[0]); }, false);
  const auto lower = [](In in) { return linalg::solve_triangular(with_diagonal(in[0], 3), in[1], false); };
  const auto upper = [](In in) { return linalg::solve_triangular(in[0] * 0.3, in[1], true, true, true); };
  const auto system = [](In in) { return linalg::solve(spread(in[0]), in[1]); };
  add("solve_triangular", "lower", {{2, 3, 3}, {3, 2}}, lower, true);
  add("solve_triangular", "upper, ones on the diagonal", {{4, 4}, {4, 3}}, upper, true);
  add("solve_triangular", "no columns", {{3, 3}, {3, 0}}, lower, true);
  add("solve", "matrices", {{3, 3}, {3, 2}}, system, true);
  add("solve", "batches broadcast", {{2, 3, 3}, {3, 1}}, system, true).gradients(Gradients::first);
  add("solve", "the largest of a workgroup, prime columns", {{64, 64}, {64, 67}}, system, true)
      .gradients(Gradients::none);
  add("solve", "no columns", {{3, 3}, {3, 0}}, system, true);
  const auto qr = [](In in) {
    const linalg::Qr f = linalg::qr(spread(in[0]));
    return TensorList{f.Q, f.R};
  };
  add("qr", "tall", {{4, 3}}, qr, false);
  add("qr", "wide", {{2, 2, 3}}, qr, false);
  add("qr", "no matrices", {{0, 3, 3}}, qr, false);
  const auto svd = [](In in) {
    const linalg::Svd f = linalg::svd(spread(in[0]), false);
    return TensorList{square(f.U), f.S, square(f.Vh)};
  };
  add("svd", "tall", {{4, 3}}, svd, false);
  add("svd", "wide", {{2, 2, 3}}, svd, false);
  add("svd", "no matrices", {{0, 3, 3}}, svd, false);
  const auto values = [](In in) { return linalg::svdvals(spread(in[0])); };
  add("svdvals", "tall", {{4, 3}}, values, false);
  add("svdvals", "no matrices", {{0, 3, 3}}, values, false);
  const auto pinv = [](In in) { return linalg::pinv(spread(in[0])); };
  add("pinv", "tall", {{4, 2}}, pinv, false);
  add("pinv", "wide", {{2, 2, 3}}, pinv, false);
  add("pinv", "no matrices", {{0, 3, 2}}, pinv, false);
  return all;
}

}  // namespace etna::conformance
