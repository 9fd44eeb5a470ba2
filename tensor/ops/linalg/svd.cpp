#include <algorithm>

#include <etna/tensor/ops.h>
#include <etna/tensor/ops/einsum/einsum.h>
#include <etna/tensor/ops/linalg/internal/decompositions.h>
#include <etna/tensor/ops/linalg/internal/factors.h>
#include <etna/tensor/ops/linalg/internal/matrices.h>

// Singular values, and the pseudoinverse.
namespace etna {
namespace linalg {
namespace {

constexpr const char* kSvdNotFinite = "is not finite, or its singular values do not converge";

/// The factors of a row-major matrix. Computed in double, for f32 too: exact to the last digits.
struct SvdFactors {
  template <typename T>
  SvdFactors(const T* a, std::int64_t m, std::int64_t n, raw::Vectors vectors) : s(elements(std::min(m, n), 1)) {
    if (!raw::all_finite(a, m * n)) return;
    std::vector<double> copy(a, a + m * n);
    if (vectors != raw::Vectors::none) {
      const bool full = vectors == raw::Vectors::full;
      u.resize(elements(m, full ? m : std::min(m, n)));
      vh.resize(elements(full ? n : std::min(m, n), n));
    }
    converged = raw::svd(m, n, vectors, copy.data(), s.data(), u.data(), vh.data());
  }
  static std::size_t elements(std::int64_t m, std::int64_t n) { return static_cast<std::size_t>(m * n); }

  std::vector<double> u, s, vh;
  bool converged = false;  ///< also false for a matrix that is not finite
};

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
  const std::int64_t k = out[1].size(-1), u_columns = out[0].size(-1), vh_rows = out[2].size(-2);
  if (a.numel() > 0) raw::require_decompositions(call.op.name, a.size(-2), a.size(-1));
  each_matrix(call.op.name, a, [&](auto zero, std::int64_t i) -> const char* {
    using T = decltype(zero);
    T *const u = result<T>(out[0], i), *const vh = result<T>(out[2], i);
    if (k == 0) {
      set_identity(a.size(-2), u_columns, u), set_identity(vh_rows, a.size(-1), vh);
      return nullptr;
    }
    const SvdFactors found(matrix<T>(a, i), a.size(-2), a.size(-1),
                           call.as<SvdAttrs>().full ? raw::Vectors::full : raw::Vectors::reduced);
    if (!found.converged) return kSvdNotFinite;
    convert(found.u.data(), a.size(-2) * u_columns, u);
    convert(found.s.data(), k, out[1].host<T>() + i * k);
    convert(found.vh.data(), vh_rows * a.size(-1), vh);
    return nullptr;
  });
}

Tensor skew(const Tensor& x) { return x - x.t(); }

/// With E_ij = s_j² - s_i² off the diagonal, for K = min(M, N):
///   G = U [ (skew(Uᵀ G_U) / E) S + S (skew(Vᵀ G_V) / E) + diag(G_S) ] Vᵀ
/// plus (G_U - U Uᵀ G_U) S⁻¹ Vᵀ for M > K, or U S⁻¹ (G_V - V Vᵀ G_V)ᵀ for N > K.
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

// ---- singular values only

std::vector<OutputSpec> svdvals_infer(const OpCall& call) {
  const Tensor& a = call.in[0];
  require_matrices(call.op.name, a);
  return {{with_sizes(batch_shape(a), {std::min(a.size(-2), a.size(-1))}), a.dtype()}};
}
void svdvals_cpu(const OpCall& call, std::span<Tensor> out) {
  const Tensor a = call.in[0].contiguous();
  const std::int64_t k = out[0].size(-1);
  if (a.numel() == 0) return;
  raw::require_decompositions(call.op.name, a.size(-2), a.size(-1));
  each_matrix(call.op.name, a, [&](auto zero, std::int64_t i) -> const char* {
    using T = decltype(zero);
    const SvdFactors found(matrix<T>(a, i), a.size(-2), a.size(-1), raw::Vectors::none);
    if (!found.converged) return kSvdNotFinite;
    convert(found.s.data(), k, out[0].host<T>() + i * k);
    return nullptr;
  });
}
TensorList svdvals_vjp(const VjpCall& call) {
  const Svd all = svd(call.in[0], false);
  return {matmul(all.U * call.grad[0].unsqueeze(-2), all.Vh)};
}
const OpDef kSvdvals = {
    .name = "svdvals", .infer = svdvals_infer, .cpu = svdvals_cpu, .vjp = svdvals_vjp, .saved = Saved::inputs};

// ---- pseudoinverse

std::vector<OutputSpec> pinv_infer(const OpCall& call) {
  const Tensor& a = call.in[0];
  require_matrices(call.op.name, a);
  return {{with_sizes(batch_shape(a), {a.size(-1), a.size(-2)}), a.dtype()}};
}
void pinv_cpu(const OpCall& call, std::span<Tensor> out) {
  const Tensor a = call.in[0].contiguous();
  const double rtol = call.as<PinvAttrs>().rtol;
  const std::int64_t m = a.size(-2), n = a.size(-1), k = std::min(m, n);
  if (a.numel() == 0) return;
  raw::require_decompositions(call.op.name, m, n);
  each_matrix(call.op.name, a, [&](auto zero, std::int64_t i) -> const char* {
    using T = decltype(zero);
    SvdFactors found(matrix<T>(a, i), m, n, raw::Vectors::reduced);
    if (!found.converged) return kSvdNotFinite;
    const double least = rtol * found.s[0];
    double* row = found.vh.data();
    for (const double value : found.s) {
      const double factor = value > least ? 1 / value : 0;
      row = std::transform(row, row + n, row, [factor](double x) { return x * factor; });
    }
    std::vector<double> inverse(SvdFactors::elements(n, m));
    cpu::gemm_one_thread(
        {.transpose_a = true, .transpose_b = true, .m = n, .n = m, .k = k, .lda = n, .ldb = k, .ldc = m}, 1.0,
        found.vh.data(), found.u.data(), 0.0, inverse.data());
    convert(inverse.data(), n * m, result<T>(out[0], i));
    return nullptr;
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
