#include <algorithm>

#include <etna/tensor/ops.h>
#include <etna/tensor/ops/linalg/internal/decompositions.h>
#include <etna/tensor/ops/linalg/internal/matrices.h>

// QR by Householder reflections.
namespace etna {
namespace linalg {
namespace {

struct QrAttrs {
  QrMode mode = QrMode::reduced;
};

std::vector<OutputSpec> qr_infer(const OpCall& call) {
  const Tensor& a = call.in[0];
  require_matrices(call.op.name, a);
  const std::int64_t m = a.size(-2), n = a.size(-1);
  const std::int64_t k = call.as<QrAttrs>().mode == QrMode::complete ? m : std::min(m, n);
  const Shape batch = batch_shape(a);
  return {{with_sizes(batch, {m, k}), a.dtype()}, {with_sizes(batch, {k, n}), a.dtype()}};
}

void qr_cpu(const OpCall& call, std::span<Tensor> out) {
  const Tensor a = call.in[0].contiguous();
  const std::int64_t m = a.size(-2), n = a.size(-1), k = out[0].size(-1);
  if (a.numel() > 0) raw::require_decompositions(call.op.name, m, n);
  each_matrix(call.op.name, a, [&](auto zero, std::int64_t i) -> const char* {
    using T = decltype(zero);
    T* const q = result<T>(out[0], i);
    if (m == 0 || n == 0)
      set_identity(m, k, q);
    else
      raw::qr(m, n, k, matrix<T>(a, i), q, result<T>(out[1], i));
    return nullptr;
  });
}

/// tril(X, -1) + its transpose + the diagonal.
Tensor copy_lower(const Tensor& x) {
  const Tensor below = tril(x, -1);
  return below + below.t() + as_diagonal(linalg::diagonal(x));
}

/// For M ≥ N (Walter, Lehmann & Lamour 2012): (G_Q + Q · copy_lower(R G_Rᵀ - G_Qᵀ Q)) R⁻ᵀ.
Tensor tall_gradient(const Tensor& q, const Tensor& r, const Tensor& gq, const Tensor& gr) {
  const Tensor inner = copy_lower(matmul(r, gr.t()) - matmul(gq.t(), q));
  return solve_triangular(r.t(), gq + matmul(q, inner), false, false);
}

TensorList qr_vjp(const VjpCall& call) {
  const Tensor &q = call.out[0], &r = call.out[1];
  const std::int64_t m = q.size(-2), n = r.size(-1);
  if (call.as<QrAttrs>().mode == QrMode::r) throw GradError("qr: QrMode::r computes no Q, which the gradient needs");
  if (call.as<QrAttrs>().mode == QrMode::complete && m > n) {
    throw GradError(fmt::format("qr: with QrMode::complete the gradient is not defined for {} x {} matrices", m, n));
  }
  const Tensor gq = call.grad[0].defined() ? call.grad[0] : zeros_like(q);
  const Tensor gr = call.grad[1].defined() ? call.grad[1] : zeros_like(r);
  if (m >= n) return {tall_gradient(q, r, gq, gr)};
  // Q and the first M columns of R come from the first M columns of A; the other columns of R are Qᵀ times A's.
  const Tensor rest = r.slice(-1, m, n), g_rest = gr.slice(-1, m, n);
  // The other columns of A are Q · rest.
  const Tensor columns = matmul(q, rest);
  const Tensor first = tall_gradient(q, r.slice(-1, 0, m), gq + matmul(columns, g_rest.t()), gr.slice(-1, 0, m));
  return {cat({first, matmul(q, g_rest)}, -1)};
}

const OpDef kQr = {.name = "qr", .infer = qr_infer, .cpu = qr_cpu, .vjp = qr_vjp, .saved = Saved::outputs};

}  // namespace

Qr qr(const Tensor& a, QrMode mode) {
  detail::require_defined("qr", a);
  TensorList both = apply(kQr, {a}, Attrs::of(QrAttrs{mode}));
  return {mode == QrMode::r ? Tensor() : both[0], both[1]};
}

}  // namespace linalg

std::span<const OpDef* const> ops_in_qr() {
  static const OpDef* const list[] = {&linalg::kQr};
  return list;
}

}  // namespace etna
