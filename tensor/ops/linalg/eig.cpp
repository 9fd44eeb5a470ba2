#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include <etna/tensor/ops.h>
#include <etna/tensor/ops/einsum/einsum.h>
#include <etna/tensor/ops/linalg/internal/decompositions.h>
#include <etna/tensor/ops/linalg/internal/factors.h>
#include <etna/tensor/ops/linalg/internal/matrices.h>

// Eigenvalues of matrices that are not symmetric: complex, as pairs of real tensors.
namespace etna {
namespace linalg {
namespace {

constexpr const char* kEigNotFinite = "is not finite, or its eigenvalues do not converge";

std::vector<OutputSpec> eig_infer(const OpCall& call) {
  const Tensor& a = call.in[0];
  require_square(call.op.name, a);
  const OutputSpec values{with_sizes(batch_shape(a), {a.size(-1)}), a.dtype()}, vectors{a.shape(), a.dtype()};
  return {values, values, vectors, vectors};
}

void eig_cpu(const OpCall& call, std::span<Tensor> out) {
  const Tensor a = call.in[0].contiguous();
  const std::int64_t n = a.size(-1);
  if (a.numel() == 0) return;
  raw::require_decompositions(call.op.name, n, n);
  each_matrix(call.op.name, a, [&](auto zero, std::int64_t i) -> const char* {
    using T = decltype(zero);
    if (!raw::all_finite(matrix<T>(a, i), n * n)) return kEigNotFinite;
    std::vector<double> x = copied<double, T>(a, i), re(x.size()), im(x.size());
    const auto side = static_cast<std::size_t>(n);
    std::vector<double> real(side), imag(side);
    if (!raw::eig(n, x.data(), real.data(), imag.data(), re.data(), im.data())) return kEigNotFinite;
    std::vector<std::size_t> order(side);
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::sort(order.begin(), order.end(),
              [&](std::size_t p, std::size_t q) { return std::pair(real[p], imag[p]) < std::pair(real[q], imag[q]); });
    T *const values_re = out[0].host<T>() + i * n, *const values_im = out[1].host<T>() + i * n;
    T *const vectors_re = result<T>(out[2], i), *const vectors_im = result<T>(out[3], i);
    for (std::size_t k = 0; k < side; ++k) {
      values_re[k] = static_cast<T>(real[order[k]]), values_im[k] = static_cast<T>(imag[order[k]]);
      for (std::size_t row = 0; row < side; ++row) {
        vectors_re[row * side + k] = static_cast<T>(re[order[k] * side + row]);
        vectors_im[row * side + k] = static_cast<T>(im[order[k] * side + row]);
      }
    }
    return nullptr;
  });
}

Complex operator-(const Complex& a, const Complex& b) { return {a.real - b.real, a.imag - b.imag}; }
Complex complex_matmul(const Complex& a, const Complex& b) {
  return {matmul(a.real, b.real) - matmul(a.imag, b.imag), matmul(a.real, b.imag) + matmul(a.imag, b.real)};
}
Complex adjoint(const Complex& a) { return {a.real.t(), -a.imag.t()}; }
/// a / b element by element
Complex quotient(const Complex& a, const Complex& b) {
  const Tensor size = square(b.real) + square(b.imag);
  return {(a.real * b.real + a.imag * b.imag) / size, (a.imag * b.real - a.real * b.imag) / size};
}
/// The real part of X with A · X = B: a system of twice the size.
Tensor real_of_solved(const Complex& a, const Complex& b) {
  const std::int64_t n = a.real.size(-1);
  const Tensor left = cat({cat({a.real, -a.imag}, -1), cat({a.imag, a.real}, -1)}, -2);
  return solve(left, cat({b.real, b.imag}, -2)).slice(-2, 0, n);
}

/// V⁻ᴴ (diag(G_L) + (Vᴴ G_V - Vᴴ V · Re diag(Vᴴ G_V)) / E) Vᴴ with E_ij = conj(l_j - l_i) off the diagonal
/// (Boeddeker et al. 2017).
TensorList eig_vjp(const VjpCall& call) {
  const Complex v{call.out[2], call.out[3]};
  const auto given = [&call](std::size_t k) { return call.grad[k].defined() ? call.grad[k] : zeros_like(call.out[k]); };
  const Complex vh = adjoint(v);
  Complex inner{as_diagonal(given(0)), as_diagonal(given(1))};
  if (call.grad[2].defined() || call.grad[3].defined()) {
    const Tensor lr = call.out[0], li = call.out[1];
    const Tensor same = detail::identity(lr.size(-1), {boolean, lr.device()});
    const Complex differences{masked_fill(lr.unsqueeze(-2) - lr.unsqueeze(-1), same, 1),
                              masked_fill(li.unsqueeze(-1) - li.unsqueeze(-2), same, 0)};
    const Complex rotated = complex_matmul(vh, {given(2), given(3)});
    const Tensor lengths = linalg::diagonal(rotated.real).unsqueeze(-2);
    const Complex rest = quotient(rotated - complex_matmul(vh, {v.real * lengths, v.imag * lengths}), differences);
    inner = {inner.real + masked_fill(rest.real, same, 0), inner.imag + masked_fill(rest.imag, same, 0)};
  }
  return {real_of_solved(vh, complex_matmul(inner, vh))};
}

const OpDef kEig = {.name = "eig", .infer = eig_infer, .cpu = eig_cpu, .vjp = eig_vjp, .saved = Saved::outputs};

}  // namespace

Eig eig(const Tensor& a) {
  detail::require_defined("eig", a);
  require_square("eig", a);
  const TensorList all = apply(kEig, {a});
  return {{all[0], all[1]}, {all[2], all[3]}};
}
Complex eigvals(const Tensor& a) { return eig(a).eigenvalues; }

Tensor householder_product(const Tensor& a, const Tensor& tau) {
  detail::require_defined("householder_product", a, tau);
  require_matrices("householder_product", a);
  const std::int64_t m = a.size(-2), n = a.size(-1), k = tau.dim() > 0 ? tau.size(-1) : -1;
  if (m < n || k < 0 || k > n || tau.dtype() != a.dtype() || tau.dim() != a.dim() - 1 ||
      with_sizes(batch_shape(a), {k}) != tau.shape()) {
    throw ShapeError(fmt::format(
        "householder_product: A is {} {}, tau is {} {}; they must be [..., M, N] with M ≥ N, and [..., K] with K ≤ N",
        name(a.dtype()), str(a.shape()), name(tau.dtype()), str(tau.shape())));
  }
  const TensorOptions options{a.dtype(), a.device()};
  Tensor q = detail::identity(m, options).slice(1, 0, n).expand(a.shape());
  for (std::int64_t i = k - 1; i >= 0; --i) {
    const Tensor below = a.slice(-2, i + 1, m).slice(-1, i, i + 1);
    const Shape batch = batch_shape(a);
    const Tensor v =
        cat({zeros(with_sizes(batch, {i, 1}), options), ones(with_sizes(batch, {1, 1}), options), below}, -2);
    q = q - matmul(v * tau.slice(-1, i, i + 1).unsqueeze(-1), matmul(v.t(), q));
  }
  return q;
}

}  // namespace linalg

std::span<const OpDef* const> ops_in_eig() {
  static const OpDef* const list[] = {&linalg::kEig};
  return list;
}

}  // namespace etna
