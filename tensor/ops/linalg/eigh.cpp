#include <algorithm>

#include <etna/tensor/ops/linalg/matrices.h>

#include <Eigen/Eigenvalues>
#include <unsupported/Eigen/MatrixFunctions>

#include <etna/tensor/einsum.h>
#include <etna/tensor/ops.h>

// Eigenvalues of symmetric matrices, and the matrix exponential.
namespace etna {
namespace linalg {
namespace {

constexpr const char* kEighNotFinite = "is not finite, or its eigenvalues do not converge";

std::vector<OutputSpec> eigh_infer(const OpCall& call) {
  const Tensor& a = call.in[0];
  require_square(call.op.name, a);
  return {{with_sizes(batch_shape(a), {a.size(-1)}), a.dtype()}, {a.shape(), a.dtype()}};
}

void eigh_cpu(const OpCall& call, std::span<Tensor> out) {
  const Tensor a = call.in[0].contiguous();
  const std::int64_t n = a.size(-1);
  if (a.numel() == 0) return;
  each_matrix(call.op.name, a, [&](auto zero, std::int64_t i) -> const char* {
    using T = decltype(zero);
    // Only the lower triangle is read, so only that must be finite.
    const Eigen::MatrixXd lower = matrix<T>(a, i).template cast<double>().template triangularView<Eigen::Lower>();
    if (!lower.allFinite()) return kEighNotFinite;
    const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> found(lower);
    std::copy_n(found.eigenvalues().data(), n, out[0].host<T>() + i * n);
    result<T>(out[1], i) = found.eigenvectors().template cast<T>();
    return found.info() == Eigen::Success ? nullptr : kEighNotFinite;
  });
}

/// V (diag(G_L) + Vᵀ G_V / E) Vᵀ with E_ij = l_j - l_i off the diagonal.
TensorList eigh_vjp(const VjpCall& call) {
  const Tensor &l = call.out[0], &v = call.out[1], &gl = call.grad[0], &gv = call.grad[1];
  if (!gv.defined()) return {matmul(v * gl.unsqueeze(-2), v.t())};
  const Tensor same = detail::identity(l.size(-1), {boolean, l.device()});
  const Tensor apart = masked_fill(l.unsqueeze(-2) - l.unsqueeze(-1), same, 1);
  Tensor inner = masked_fill(matmul(v.t(), gv) / apart, same, 0);
  if (gl.defined()) inner = inner + as_diagonal(gl);
  return {matmul(matmul(v, inner), v.t())};
}

const OpDef kEigh = {.name = "eigh", .infer = eigh_infer, .cpu = eigh_cpu, .vjp = eigh_vjp, .saved = Saved::outputs};

std::vector<OutputSpec> exp_infer(const OpCall& call) {
  require_square(call.op.name, call.in[0]);
  return {{call.in[0].shape(), call.in[0].dtype()}};
}
void exp_cpu(const OpCall& call, std::span<Tensor> out) {
  const Tensor a = call.in[0].contiguous();
  if (a.numel() == 0) return;
  each_matrix(call.op.name, a, [&](auto zero, std::int64_t i) -> const char* {
    using T = decltype(zero);
    const Eigen::MatrixXd x = matrix<T>(a, i).template cast<double>();
    // Scaling by powers of two would not end.
    if (!x.allFinite()) return "is not finite";
    const Eigen::MatrixXd y = x.exp();
    result<T>(out[0], i) = y.template cast<T>();
    return nullptr;
  });
}
/// exp of [[Aᵀ, G], [0, Aᵀ]] has the gradient at the top right (Mathias 1996).
TensorList exp_vjp(const VjpCall& call) {
  const Tensor a = call.in[0].t(), &g = call.grad[0];
  const std::int64_t n = a.size(-1);
  const Tensor block = cat({cat({a, g}, -1), cat({zeros_like(a), a}, -1)}, -2);
  return {matrix_exp(block).slice(-2, 0, n).slice(-1, n, 2 * n)};
}
const OpDef kMatrixExp = {
    .name = "matrix_exp", .infer = exp_infer, .cpu = exp_cpu, .vjp = exp_vjp, .saved = Saved::inputs};

}  // namespace

Eigh eigh(const Tensor& a, bool upper) {
  detail::require_defined("eigh", a);
  require_square("eigh", a);
  TensorList both = apply(kEigh, {upper ? a.t() : a});
  return {both[0], both[1]};
}
Tensor eigvalsh(const Tensor& a, bool upper) { return eigh(a, upper).eigenvalues; }

Tensor matrix_exp(const Tensor& a) {
  detail::require_defined("matrix_exp", a);
  return apply1(kMatrixExp, {a});
}

}  // namespace linalg

std::span<const OpDef* const> ops_in_eigh() {
  static const OpDef* const list[] = {&linalg::kEigh, &linalg::kMatrixExp};
  return list;
}

}  // namespace etna
