#include <algorithm>
#include <numeric>
#include <utility>

#include <etna/tensor/ops.h>
#include <etna/tensor/ops/linalg/internal/factors.h>
#include <etna/tensor/ops/linalg/internal/matrices.h>

// LU with partial pivoting.
namespace etna {
namespace linalg {
namespace {

std::vector<OutputSpec> lu_factor_infer(const OpCall& call) {
  const Tensor& a = call.in[0];
  require_matrices(call.op.name, a);
  const Shape batch = batch_shape(a);
  return {{a.shape(), a.dtype()},
          {with_sizes(batch, {std::min(a.size(-1), a.size(-2))}), i32},
          {with_sizes(batch, {a.size(-2)}), i64}};
}

void lu_factor_cpu(const OpCall& call, std::span<Tensor> out) {
  const Tensor a = call.in[0].contiguous();
  each_matrix(call.op.name, a, [&](auto zero, std::int64_t index) -> const char* {
    using T = decltype(zero);
    const std::int64_t m = a.size(-2), n = a.size(-1), steps = std::min(m, n);
    std::int32_t* pivots = out[1].host<std::int32_t>() + index * steps;
    std::int64_t* rows = out[2].host<std::int64_t>() + index * m;
    std::iota(rows, rows + m, std::int64_t{0});
    if (n == 0) return nullptr;
    T* const y = result<T>(out[0], index);
    std::copy_n(matrix<T>(a, index), m * n, y);
    raw::lu(m, n, y, pivots);
    for (std::int64_t k = 0; k < steps; ++k) std::swap(rows[k], rows[pivots[k]++]);
    return nullptr;
  });
}
bool lu_factor_gpu(const OpCall& call, std::span<Tensor> out) {
  return run_small(call, Small::lu, call.in[0], {}, out[0], out[1], out[2]);
}

/// [..., M, M] with P[permutation[i], i] = 1. Compares in f32, which represents indices exactly up to 2^24.
Tensor permutation_matrix(const Tensor& permutation, DType dtype) {
  const Tensor row = cumsum(ones({permutation.size(-1)}, {f32, permutation.device()}), 0) - 1.0;
  return eq(row.unsqueeze(1), permutation.to(f32).unsqueeze(-2)).to(dtype);
}

/// L of a rectangular factor, including its ones; and U.
Tensor lower(const Tensor& lu) {
  const std::int64_t k = std::min(lu.size(-1), lu.size(-2));
  const Tensor one = tril(triu(ones({lu.size(-2), k}, {boolean, lu.device()})));
  return where(one, 1.0, tril(lu.slice(-1, 0, k), -1));
}
Tensor upper(const Tensor& lu) { return triu(lu.slice(-2, 0, std::min(lu.size(-1), lu.size(-2)))); }

/// With G split into G_L below the diagonal and G_U: P L⁻ᵀ (tril(Lᵀ G_L, -1) + triu(G_U Uᵀ)) U⁻ᵀ.
TensorList lu_factor_vjp(const VjpCall& call) {
  const Tensor &lu = call.out[0], &g = call.grad[0];
  if (!g.defined()) return {zeros_like(lu)};
  if (lu.size(-1) != lu.size(-2)) {
    throw GradError(fmt::format("lu_factor: {} is not square; only square matrices have a gradient", str(lu.shape())));
  }
  const Tensor l = lower(lu), u = upper(lu);
  const Tensor middle = tril(matmul(l.t(), tril(g, -1)), -1) + triu(matmul(triu(g), u.t()));
  const Tensor right = solve_triangular(u.t(), middle, false, false);
  const Tensor left = solve_triangular(l.t(), right, true, true, true);
  return {matmul(permutation_matrix(call.out[2], lu.dtype()), left)};
}

const OpDef kLuFactor = {.name = "lu_factor",
                         .infer = lu_factor_infer,
                         .cpu = lu_factor_cpu,
                         .gpu = lu_factor_gpu,
                         .vjp = lu_factor_vjp,
                         .saved = Saved::outputs,
                         .saved_outputs = 0b101};

}  // namespace

LuFactor lu_factor(const Tensor& a) {
  detail::require_defined("lu_factor", a);
  TensorList all = apply(kLuFactor, {a});
  return {all[0], all[1], all[2]};
}

Lu lu(const Tensor& a) {
  const LuFactor factor = lu_factor(a);
  return {permutation_matrix(factor.permutation, a.dtype()), lower(factor.LU), upper(factor.LU)};
}

Tensor lu_solve(const LuFactor& factor, const Tensor& b) {
  detail::require_defined("lu_solve", factor.LU, factor.permutation, b);
  require_square("lu_solve", factor.LU);
  require_matrices("lu_solve", b);
  if (b.size(-2) != factor.LU.size(-1)) {
    throw ShapeError(
        fmt::format("lu_solve: A {} and B {} have different numbers of rows", str(factor.LU.shape()), str(b.shape())));
  }
  const Tensor permuted = matmul(permutation_matrix(factor.permutation, b.dtype()).t(), b);
  return solve_triangular(factor.LU, solve_triangular(factor.LU, permuted, false, true, true), true);
}

}  // namespace linalg

std::span<const OpDef* const> ops_in_lu() {
  static const OpDef* const list[] = {&linalg::kLuFactor};
  return list;
}

}  // namespace etna
