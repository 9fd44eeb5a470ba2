#include <algorithm>

#include <etna/tensor/ops/linalg/matrices.h>

#include <Eigen/SVD>

#include <etna/tensor/einsum.h>
#include <etna/tensor/ops.h>

// Singular values, and the pseudoinverse.
namespace etna {
namespace linalg {
namespace {

/// Computes in double for f32, too: exact to the last digits, and a minute less to compile.
using Decomposition = Eigen::BDCSVD<Eigen::MatrixXd>;

constexpr const char* kSvdNotFinite = "is not finite, or its singular values do not converge";

struct SvdAttrs {
  bool full = true;
};
struct PinvAttrs {
  double rtol = 0;
};

std::vector<OutputSpec> svd_infer(const OpCall& call) {
  const Tensor& a = call.in[0];
  require_matrices(call.op.name, a);
  const std::int64_t m = a.size(-2), n = a.size(-1), k = std::min(m, n);
  const bool full = call.as<SvdAttrs>().full;
  const Shape batch = batch_shape(a);
  return {{with_sizes(batch, {m, full ? m : k}), a.dtype()},
          {with_sizes(batch, {k}), a.dtype()},
          {with_sizes(batch, {full ? n : k, n}), a.dtype()}};
}

void svd_cpu(const OpCall& call, std::span<Tensor> out) {
  const Tensor a = call.in[0].contiguous();
  const unsigned what =
      call.as<SvdAttrs>().full ? Eigen::ComputeFullU | Eigen::ComputeFullV : Eigen::ComputeThinU | Eigen::ComputeThinV;
  each_matrix(call.op.name, a, [&](auto zero, std::int64_t i) -> const char* {
    using T = decltype(zero);
    auto u = result<T>(out[0], i);
    auto vh = result<T>(out[2], i);
    u.setIdentity(), vh.setIdentity();
    const std::int64_t k = std::min(a.size(-1), a.size(-2));
    if (k == 0) return nullptr;
    if (!matrix<T>(a, i).allFinite()) return kSvdNotFinite;
    const Decomposition found(matrix<T>(a, i).template cast<double>(), what);
    u = found.matrixU().template cast<T>();
    vh = found.matrixV().transpose().template cast<T>();
    std::copy_n(found.singularValues().data(), k, out[1].host<T>() + i * k);
    return found.info() == Eigen::Success ? nullptr : kSvdNotFinite;
  });
}

Tensor skew(const Tensor& x) { return x - x.t(); }

/// With E_ij = s_j² - s_i² off the diagonal, for K = min(M, N):
///   G = U [ (skew(Uᵀ G_U) / E) S + S (skew(Vᵀ G_V) / E) + diag(G_S) ] Vᵀ
/// and, for M > K, (G_U - U Uᵀ G_U) S⁻¹ Vᵀ more; for N > K, U S⁻¹ (G_V - V Vᵀ G_V)ᵀ.
TensorList svd_vjp(const VjpCall& call) {
  const Tensor &u = call.out[0], &s = call.out[1], &vh = call.out[2];
  const Tensor &gu = call.grad[0], &gs = call.grad[1], &gvh = call.grad[2];
  const std::int64_t m = u.size(-2), n = vh.size(-1), k = s.size(-1);
  if ((gu.defined() || gvh.defined()) && call.as<SvdAttrs>().full && m != n) {
    throw GradError("svd: the vectors of a matrix that is not square have gradients with full_matrices = false only");
  }
  const Tensor thin_u = u.slice(-1, 0, k), thin_vh = vh.slice(-2, 0, k);
  const Tensor row = s.unsqueeze(-2), column = s.unsqueeze(-1);
  Tensor inner = gs.defined() ? as_diagonal(gs) : zeros(with_sizes(batch_shape(u), {k, k}), {u.dtype(), u.device()});
  Tensor more;
  if (gu.defined() || gvh.defined()) {
    const Tensor same = detail::identity(k, {boolean, s.device()});
    const Tensor e = masked_fill((row - column) * (row + column), same, 1);
    if (gu.defined()) inner = inner + skew(matmul(u.t(), gu)) / e * row;
    if (gvh.defined()) inner = inner + column * skew(matmul(vh, gvh.t())) / e;
    if (gu.defined() && m > k) more = matmul((gu - matmul(u, matmul(u.t(), gu))) / row, vh);
    if (gvh.defined() && n > k) more = matmul(u, (gvh - matmul(matmul(gvh, vh.t()), vh)) / column);
  }
  const Tensor g = matmul(matmul(thin_u, inner), thin_vh);
  return {more.defined() ? g + more : g};
}

const OpDef kSvd = {.name = "svd", .infer = svd_infer, .cpu = svd_cpu, .vjp = svd_vjp, .saved = Saved::outputs};

// ---- singular values alone

std::vector<OutputSpec> values_infer(const OpCall& call) {
  const Tensor& a = call.in[0];
  require_matrices(call.op.name, a);
  return {{with_sizes(batch_shape(a), {std::min(a.size(-2), a.size(-1))}), a.dtype()}};
}
void values_cpu(const OpCall& call, std::span<Tensor> out) {
  const Tensor a = call.in[0].contiguous();
  const std::int64_t k = out[0].size(-1);
  each_matrix(call.op.name, a, [&](auto zero, std::int64_t i) -> const char* {
    using T = decltype(zero);
    if (k == 0) return nullptr;
    if (!matrix<T>(a, i).allFinite()) return kSvdNotFinite;
    const Decomposition found(matrix<T>(a, i).template cast<double>());
    std::copy_n(found.singularValues().data(), k, out[0].host<T>() + i * k);
    return found.info() == Eigen::Success ? nullptr : kSvdNotFinite;
  });
}
TensorList values_vjp(const VjpCall& call) {
  const Svd all = svd(call.in[0], false);
  return {matmul(all.U * call.grad[0].unsqueeze(-2), all.Vh)};
}
const OpDef kSvdvals = {
    .name = "svdvals", .infer = values_infer, .cpu = values_cpu, .vjp = values_vjp, .saved = Saved::inputs};

// ---- pseudoinverse

std::vector<OutputSpec> pinv_infer(const OpCall& call) {
  const Tensor& a = call.in[0];
  require_matrices(call.op.name, a);
  return {{with_sizes(batch_shape(a), {a.size(-1), a.size(-2)}), a.dtype()}};
}
void pinv_cpu(const OpCall& call, std::span<Tensor> out) {
  const Tensor a = call.in[0].contiguous();
  const double rtol = call.as<PinvAttrs>().rtol;
  if (a.numel() == 0) return;
  each_matrix(call.op.name, a, [&](auto zero, std::int64_t i) -> const char* {
    using T = decltype(zero);
    if (!matrix<T>(a, i).allFinite()) return kSvdNotFinite;
    const Decomposition found(matrix<T>(a, i).template cast<double>(), Eigen::ComputeThinU | Eigen::ComputeThinV);
    Eigen::VectorXd s = found.singularValues();
    const double least = rtol * s[0];
    for (double& value : s) value = value > least ? 1 / value : 0;
    const Eigen::MatrixXd inverse = found.matrixV() * s.asDiagonal() * found.matrixU().transpose();
    result<T>(out[0], i) = inverse.template cast<T>();
    return found.info() == Eigen::Success ? nullptr : kSvdNotFinite;
  });
}
/// Golub & Pereyra (1973), for matrices of constant rank.
TensorList pinv_vjp(const VjpCall& call) {
  const Tensor &a = call.in[0], &p = call.out[0], &g = call.grad[0];
  const Tensor pt = p.t(), gt = g.t();
  const Tensor outside_columns = matmul(gt, matmul(p, pt)), outside_rows = matmul(matmul(pt, p), gt);
  return {-matmul(matmul(pt, g), pt) + outside_columns - matmul(a, matmul(p, outside_columns)) + outside_rows -
          matmul(matmul(outside_rows, p), a)};
}
const OpDef kPinv = {.name = "pinv", .infer = pinv_infer, .cpu = pinv_cpu, .vjp = pinv_vjp, .saved = Saved::both};

}  // namespace

Svd svd(const Tensor& a, bool full_matrices) {
  detail::require_defined("svd", a);
  TensorList all = apply(kSvd, {a}, Attrs::of(SvdAttrs{full_matrices}));
  return {all[0], all[1], all[2]};
}
Tensor svdvals(const Tensor& a) {
  detail::require_defined("svdvals", a);
  return apply1(kSvdvals, {a});
}
Tensor pinv(const Tensor& a, std::optional<double> rtol) {
  detail::require_defined("pinv", a);
  require_matrices("pinv", a);
  const double epsilon =
      a.dtype() == f64 ? std::numeric_limits<double>::epsilon() : std::numeric_limits<float>::epsilon();
  return apply1(kPinv, {a},
                Attrs::of(PinvAttrs{rtol.value_or(epsilon * static_cast<double>(std::max(a.size(-1), a.size(-2))))}));
}

}  // namespace linalg

std::span<const OpDef* const> ops_in_svd() {
  static const OpDef* const list[] = {&linalg::kSvd, &linalg::kSvdvals, &linalg::kPinv};
  return list;
}

}  // namespace etna
