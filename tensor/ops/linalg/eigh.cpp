#include <algorithm>

#include <etna/tensor/ops.h>
#include <etna/tensor/ops/einsum/einsum.h>
#include <etna/tensor/ops/linalg/internal/decompositions.h>
#include <etna/tensor/ops/linalg/internal/factors.h>
#include <etna/tensor/ops/linalg/internal/matrices.h>

// Eigenvalues of symmetric matrices.
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
  raw::require_decompositions(call.op.name, n, n);
  each_matrix(call.op.name, a, [&](auto zero, std::int64_t i) -> const char* {
    using T = decltype(zero);
    std::vector<double> x = copied<double, T>(a, i), values(static_cast<std::size_t>(n));
    // Only the lower triangle is read, so only it must be finite.
    for (std::int64_t row = 0; row < n; ++row) std::fill_n(x.data() + row * n + row + 1, n - row - 1, 0.0);
    if (!raw::all_finite(x.data(), n * n) || !raw::eigh(n, x.data(), values.data())) return kEighNotFinite;
    convert(values.data(), n, out[0].host<T>() + i * n);
    T* to = result<T>(out[1], i);
    for (std::int64_t row = 0; row < n; ++row) {
      for (std::int64_t k = 0; k < n; ++k) *to++ = static_cast<T>(x[static_cast<std::size_t>(k * n + row)]);
    }
    return nullptr;
  });
}

/// V (diag(G_L) + Vᵀ G_V / E) Vᵀ with E_ij = l_j - l_i off the diagonal.
TensorList eigh_vjp(const VjpCall& call) {
  const Tensor &l = call.out[0], &v = call.out[1], &gl = call.grad[0], &gv = call.grad[1];
  if (!gv.defined()) return {matmul(v * gl.unsqueeze(-2), v.t())};
  const Tensor same = detail::identity(l.size(-1), {boolean, l.device()});
  const Tensor differences = masked_fill(l.unsqueeze(-2) - l.unsqueeze(-1), same, 1);
  Tensor inner = masked_fill(matmul(v.t(), gv) / differences, same, 0);
  if (gl.defined()) inner = inner + as_diagonal(gl);
  return {matmul(matmul(v, inner), v.t())};
}

const OpDef kEigh = {.name = "eigh", .infer = eigh_infer, .cpu = eigh_cpu, .vjp = eigh_vjp, .saved = Saved::outputs};

}  // namespace

Eigh eigh(const Tensor& a, bool upper) {
  detail::require_defined("eigh", a);
  require_square("eigh", a);
  TensorList both = apply(kEigh, {upper ? a.t() : a});
  return {both[0], both[1]};
}
Tensor eigvalsh(const Tensor& a, bool upper) { return eigh(a, upper).eigenvalues; }

}  // namespace linalg

std::span<const OpDef* const> ops_in_eigh() {
  static const OpDef* const list[] = {&linalg::kEigh};
  return list;
}

}  // namespace etna
