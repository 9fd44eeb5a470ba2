#include <cmath>

#include <etna/tensor/ops.h>
#include <etna/tensor/ops/einsum/einsum.h>
#include <etna/tensor/ops/linalg/internal/factors.h>
#include <etna/tensor/ops/linalg/internal/matrices.h>

// Cholesky factors, triangular systems, systems of equations, inverses and determinants: factors.h on the CPU,
// shaders/linalg/small_matrix.comp on a GPU.
namespace etna {
namespace linalg {
namespace {

constexpr const char* kSingular = "is singular: a pivot is 0; solve in the sense of least squares by pinv() or lstsq()";

std::vector<OutputSpec> same_shape_infer(const OpCall& call) {
  require_square(call.op.name, call.in[0]);
  return {{call.in[0].shape(), call.in[0].dtype()}};
}

// ---- cholesky

void cholesky_cpu(const OpCall& call, std::span<Tensor> out) {
  const Tensor a = call.in[0].contiguous();
  const std::int64_t n = a.size(-1);
  if (a.numel() == 0) return;
  each_matrix(call.op.name, a, [&](auto zero, std::int64_t i) -> const char* {
    using T = decltype(zero);
    T* const y = result<T>(out[0], i);
    std::copy_n(matrix<T>(a, i), n * n, y);
    return raw::cholesky(n, y) && raw::all_finite(y, n * n) ? nullptr : "is not positive definite";
  });
}
bool cholesky_gpu(const OpCall& call, std::span<Tensor> out) {
  return run_small(call, Small::cholesky, call.in[0], {}, out[0]);
}

Tensor half_diagonal(const Tensor& x) { return tril(x) - as_diagonal(linalg::diagonal(x)) * 0.5; }

/// Murray, "Differentiation of the Cholesky decomposition" (2016): S = L⁻ᵀ Φ(Lᵀ G) L⁻¹, symmetric.
TensorList cholesky_vjp(const VjpCall& call) {
  const Tensor& l = call.out[0];
  const Tensor phi = half_diagonal(matmul(l.t(), call.grad[0]));
  const Tensor right = solve_triangular(l, phi, false, false), s = solve_triangular(l.t(), right, true);
  return {(s + s.t()) * 0.5};
}

const OpDef kCholesky = {.name = "cholesky",
                         .infer = same_shape_infer,
                         .cpu = cholesky_cpu,
                         .gpu = cholesky_gpu,
                         .vjp = cholesky_vjp,
                         .saved = Saved::outputs};

// ---- systems of equations

struct TriangularAttrs {
  bool upper = false, unit = false;
};

std::vector<OutputSpec> system_infer(const OpCall& call) {
  const Tensor &a = call.in[0], &b = call.in[1];
  require_square(call.op.name, a);
  require_matrices(call.op.name, b);
  if (a.size(-1) != b.size(-2)) {
    throw ShapeError(
        fmt::format("{}: A {} and B {} have different numbers of rows", call.op.name, str(a.shape()), str(b.shape())));
  }
  return {{b.shape(), b.dtype()}};
}

void solve_triangular_cpu(const OpCall& call, std::span<Tensor> out) {
  const auto attrs = call.as<TriangularAttrs>();
  const Tensor a = call.in[0].contiguous(), b = call.in[1].contiguous();
  const std::int64_t n = a.size(-1), columns = b.size(-1);
  if (b.numel() == 0) return;
  each_matrix(call.op.name, a, [&](auto zero, std::int64_t i) -> const char* {
    using T = decltype(zero);
    const T* const triangle = matrix<T>(a, i);
    T* const x = result<T>(out[0], i);
    for (std::int64_t k = 0; k < n && !attrs.unit; ++k) {
      if (triangle[k * n + k] == T(0)) return "has a zero on its diagonal";
    }
    std::copy_n(matrix<T>(b, i), n * columns, x);
    raw::solve_triangular(attrs.upper, attrs.unit, n, columns, triangle, n, x, columns);
    return nullptr;
  });
}
bool solve_triangular_gpu(const OpCall& call, std::span<Tensor> out) {
  const auto attrs = call.as<TriangularAttrs>();
  return run_small(call, Small::triangular, call.in[0], call.in[1], out[0], {}, {}, attrs.upper, attrs.unit);
}
TensorList solve_triangular_vjp(const VjpCall& call) {
  const auto [upper, unit] = call.as<TriangularAttrs>();
  const Tensor gb = solve_triangular(call.in[0].t(), call.grad[0], !upper, true, unit);
  Tensor ga;
  if (call.needs[0]) {
    ga = -matmul(gb, call.out[0].t());
    ga = upper ? triu(ga, unit ? 1 : 0) : tril(ga, unit ? -1 : 0);
  }
  return {ga, gb};
}
const OpDef kSolveTriangular = {.name = "solve_triangular",
                                .infer = system_infer,
                                .cpu = solve_triangular_cpu,
                                .gpu = solve_triangular_gpu,
                                .vjp = solve_triangular_vjp,
                                .saved = Saved::both,
                                .saved_inputs = 0b01};

void solve_cpu(const OpCall& call, std::span<Tensor> out) {
  const Tensor a = call.in[0].contiguous(), b = call.in[1].contiguous();
  const std::int64_t n = a.size(-1), columns = b.size(-1);
  if (b.numel() == 0) return;
  each_matrix(call.op.name, a, [&](auto zero, std::int64_t i) -> const char* {
    using T = decltype(zero);
    T* const x = result<T>(out[0], i);
    std::copy_n(matrix<T>(b, i), n * columns, x);
    return raw::solve(n, columns, copied<T, T>(a, i).data(), x) ? nullptr : kSingular;
  });
}
bool solve_gpu(const OpCall& call, std::span<Tensor> out) {
  return run_small(call, Small::solve, call.in[0], call.in[1], out[0]);
}
TensorList solve_vjp(const VjpCall& call) {
  const Tensor gb = solve(call.in[0].t(), call.grad[0]);
  return {call.needs[0] ? -matmul(gb, call.out[0].t()) : Tensor(), gb};
}
const OpDef kSolve = {.name = "solve",
                      .infer = system_infer,
                      .cpu = solve_cpu,
                      .gpu = solve_gpu,
                      .vjp = solve_vjp,
                      .saved = Saved::both,
                      .saved_inputs = 0b01};

// ---- inverse and determinant

void inv_cpu(const OpCall& call, std::span<Tensor> out) {
  const Tensor a = call.in[0].contiguous();
  const std::int64_t n = a.size(-1);
  if (a.numel() == 0) return;
  each_matrix(call.op.name, a, [&](auto zero, std::int64_t i) -> const char* {
    using T = decltype(zero);
    T* const x = result<T>(out[0], i);
    set_identity(n, n, x);
    return raw::solve(n, n, copied<T, T>(a, i).data(), x) ? nullptr : kSingular;
  });
}
bool inv_gpu(const OpCall& call, std::span<Tensor> out) {
  return run_small(call, Small::solve, call.in[0], {}, out[0]);
}
TensorList inv_vjp(const VjpCall& call) {
  const Tensor y = call.out[0].t();
  return {-matmul(matmul(y, call.grad[0]), y)};
}
const OpDef kInv = {
    .name = "inv", .infer = same_shape_infer, .cpu = inv_cpu, .gpu = inv_gpu, .vjp = inv_vjp, .saved = Saved::outputs};

std::vector<OutputSpec> det_infer(const OpCall& call) {
  require_square(call.op.name, call.in[0]);
  return {{batch_shape(call.in[0]), call.in[0].dtype()}};
}
std::vector<OutputSpec> slogdet_infer(const OpCall& call) {
  const OutputSpec each = det_infer(call)[0];
  return {each, each};
}

void determinants_cpu(const OpCall& call, std::span<Tensor> out) {
  const Tensor a = call.in[0].contiguous();
  const std::int64_t n = a.size(-1);
  each_matrix(call.op.name, a, [&](auto zero, std::int64_t i) -> const char* {
    using T = decltype(zero);
    std::vector<T> factor = copied<T, T>(a, i);
    std::vector<std::int32_t> swapped(static_cast<std::size_t>(n));
    raw::lu(n, n, factor.data(), swapped.data());
    T sign = 1, logarithm = 0;
    for (std::int64_t k = 0; k < n; ++k) sign = swapped[static_cast<std::size_t>(k)] == k ? sign : -sign;
    T product = sign;
    for (std::int64_t k = 0; k < n; ++k) {
      const T d = factor[static_cast<std::size_t>(k * n + k)];
      product *= d;
      sign = d == T(0) ? T(0) : d < T(0) ? -sign : d > T(0) ? sign : d;
      logarithm += std::log(std::abs(d));
    }
    out[0].host<T>()[i] = out.size() == 1 ? product : sign;
    if (out.size() == 2) out[1].host<T>()[i] = logarithm;
    return nullptr;
  });
}
bool det_gpu(const OpCall& call, std::span<Tensor> out) { return run_small(call, Small::det, call.in[0], {}, out[0]); }
bool slogdet_gpu(const OpCall& call, std::span<Tensor> out) {
  return run_small(call, Small::slogdet, call.in[0], {}, out[0], out[1]);
}
/// det A · A⁻ᵀ, also for singular matrices: entry i, j is ± the determinant of A without row i and column j.
TensorList cofactor_reference(const OpCall& call) {
  const Tensor& a = call.in[0];
  return {det(a).unsqueeze(-1).unsqueeze(-1) * inv(a).t()};
}
void cofactor_cpu(const OpCall& call, std::span<Tensor> out) {
  const Tensor a = call.in[0].contiguous();
  const std::int64_t n = a.size(-1);
  if (a.numel() == 0) return;
  each_matrix(call.op.name, a, [&](auto zero, std::int64_t i) -> const char* {
    using T = decltype(zero);
    const std::vector<double> found = raw::cofactors(n, copied<double, T>(a, i));
    convert(found.data(), n * n, result<T>(out[0], i));
    return nullptr;
  });
}
bool cofactor_gpu(const OpCall& call, std::span<Tensor> out) {
  return run_small(call, Small::cofactor, call.in[0], {}, out[0]);
}
const OpDef kCofactor = {.name = "cofactor",
                         .infer = same_shape_infer,
                         .cpu = cofactor_cpu,
                         .gpu = cofactor_gpu,
                         .reference = cofactor_reference};

Tensor inverse_times(const Tensor& a, const Tensor& factor) { return inv(a).t() * factor.unsqueeze(-1).unsqueeze(-1); }
TensorList det_vjp(const VjpCall& call) {
  return {apply1(kCofactor, {call.in[0]}) * call.grad[0].unsqueeze(-1).unsqueeze(-1)};
}
TensorList slogdet_vjp(const VjpCall& call) {
  if (!call.grad[1].defined()) return {zeros_like(call.in[0])};
  return {inverse_times(call.in[0], call.grad[1])};
}
const OpDef kDet = {
    .name = "det", .infer = det_infer, .cpu = determinants_cpu, .gpu = det_gpu, .vjp = det_vjp, .saved = Saved::inputs};
const OpDef kSlogdet = {.name = "slogdet",
                        .infer = slogdet_infer,
                        .cpu = determinants_cpu,
                        .gpu = slogdet_gpu,
                        .vjp = slogdet_vjp,
                        .saved = Saved::inputs};

}  // namespace

Tensor cholesky(const Tensor& a, bool upper) {
  detail::require_defined("cholesky", a);
  require_square("cholesky", a);
  return upper ? apply1(kCholesky, {a.t()}).t() : apply1(kCholesky, {a});
}

Tensor solve_triangular(const Tensor& a, const Tensor& b, bool upper, bool left, bool unitriangular) {
  detail::require_defined("solve_triangular", a, b);
  require_square("solve_triangular", a);
  require_matrices("solve_triangular", b);
  if (!left) return solve_triangular(a.t(), b.t(), !upper, true, unitriangular).t();
  Tensor x = a, y = b;
  broadcast_batches("solve_triangular", x, y);
  return apply1(kSolveTriangular, {x, y}, Attrs::of(TriangularAttrs{upper, unitriangular}));
}

Tensor solve(const Tensor& a, const Tensor& b, bool left) {
  detail::require_defined("solve", a, b);
  require_square("solve", a);
  Shape vectors = a.shape();
  vectors.erase(vectors.rank() - 1);
  if (b.dim() == 1 || b.shape() == vectors) return solve(left ? a : a.t(), b.unsqueeze(-1)).squeeze(-1);
  require_matrices("solve", b);
  if (!left) return solve(a.t(), b.t()).t();
  Tensor x = a, y = b;
  broadcast_batches("solve", x, y);
  return apply1(kSolve, {x, y});
}

Tensor inv(const Tensor& a) {
  detail::require_defined("inv", a);
  return apply1(kInv, {a});
}
Tensor det(const Tensor& a) {
  detail::require_defined("det", a);
  return apply1(kDet, {a});
}
SignLogDet slogdet(const Tensor& a) {
  detail::require_defined("slogdet", a);
  TensorList both = apply(kSlogdet, {a});
  return {both[0], both[1]};
}

Tensor cholesky_solve(const Tensor& b, const Tensor& l, bool upper) {
  detail::require_defined("cholesky_solve", b, l);
  require_square("cholesky_solve", l);
  const Tensor lower = upper ? l.t() : l;
  return solve_triangular(lower.t(), solve_triangular(lower, b, false), true);
}
Tensor cholesky_inverse(const Tensor& l, bool upper) {
  detail::require_defined("cholesky_inverse", l);
  require_square("cholesky_inverse", l);
  return cholesky_solve(etna::detail::identity(l.size(-1), {l.dtype(), l.device()}), l, upper);
}

}  // namespace linalg

std::span<const OpDef* const> ops_in_solve() {
  static const OpDef* const list[] = {&linalg::kCholesky, &linalg::kSolveTriangular, &linalg::kSolve,  &linalg::kInv,
                                      &linalg::kDet,      &linalg::kCofactor,        &linalg::kSlogdet};
  return list;
}

}  // namespace etna
