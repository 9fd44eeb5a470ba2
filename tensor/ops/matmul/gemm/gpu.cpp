#include <etna/tensor/ops/kernel.h>
#include <etna/tensor/ops/matmul/gemm/internal/gemm.h>
#include <etna/tensor/ops/matmul/gemm/internal/tuned.h>
#include <etna/tensor/ops/matmul/gemm/internal/variant.h>

// Converts tensors to GemmParams: copies operands whose layout no kernel can read or write, iterates over batch
// dimensions beyond the two that kernels support, and tries the launchers.
namespace etna::gemm {

std::int64_t spacing(const Tensor& x) {
  std::int64_t n = x.size(-1), step = 0, rows = 1;
  if (n != 1 && x.strides()[x.dim() - 1] != 1) return 0;
  for (int d = x.dim() - 2; d >= 0; --d) {
    if (x.shape()[d] == 1) continue;
    if (rows == 1) step = x.strides()[d];
    if (x.strides()[d] != step * rows) return 0;
    rows *= x.shape()[d];
  }
  return rows == 1 ? n : step < n ? 0 : step;
}

Tensor readable(const Tensor& x) { return x.defined() && spacing(x) == 0 ? x.contiguous() : x; }

namespace {

Rows rows_of(const Tensor& x) { return x.defined() ? Rows{gpu::pointer(x), x.dtype(), spacing(x)} : Rows{}; }

Tensor writable(const Tensor& x) { return x.defined() && spacing(x) == 0 ? empty_like(x) : x; }

Operand operand(const Tensor& x, const Matrix& matrix, const Strides& batch) {
  Operand o{gpu::pointer(x), matrix.transposed, matrix.leading};
  for (int i = 0, first = batch.rank() - 2; i < 2; ++i)
    o.strides[static_cast<std::size_t>(i)] = first + i >= 0 ? batch[first + i] : 0;
  return o;
}

bool launch(const OpCall& call, GemmParams params) {
  if (std::optional<KernelConfig> config = config_for(params)) {
    params.tiling = config->tiling;
    for (const Launcher& launcher : launchers()) {
      if (launcher.variant == config->variant && launcher.launch(call, params)) return true;
    }
    params.tiling.reset();
  }
  for (const Launcher& launcher : launchers()) {
    if (launcher.launch(call, params)) return true;
  }
  return false;
}

/// Iterates over the batch dimensions whose strides do not merge into two.
bool launch_from(const OpCall& call, const Plan& plan, int dim, GemmParams params) {
  if (plan.batch.rank() - dim <= 2) return launch(call, params);
  std::int64_t below = params.m;
  for (int d = dim + 1; d < plan.batch.rank(); ++d) below *= plan.batch[d];
  for (std::int64_t i = 0; i < plan.batch[dim]; ++i) {
    if (!launch_from(call, plan, dim + 1, params)) return false;
    params.a.advance(plan.a_batch[dim], params.dtype);
    params.b.advance(plan.b_batch[dim], params.dtype);
    for (Rows* rows : {&params.y, &params.preactivation, &params.derivative_at, &params.residual}) rows->advance(below);
  }
  return true;
}

/// Replaces an empty k by a single zero: a sum over no elements is 0 too.
Tensor one_zero(const Tensor& x, int dim) {
  Shape shape = x.shape();
  shape[x.dim() + dim] = 1;
  return zeros(shape, {x.dtype(), x.device()});
}

}  // namespace

bool on_gpu(const OpCall& call, const Tensor& a, const Tensor& b, const Epilogue& e, Tensor& y) {
  for (const Tensor& x : {a, y, e.bias, e.preactivation, e.derivative_at, e.residual}) {
    if (x.defined() && x.dtype() == f64) return false;
  }
  if (y.numel() == 0) return true;
  if (a.size(-1) == 0) return on_gpu(call, one_zero(a, -1), one_zero(b, -2), e, y);
  Plan p = plan(a, b);
  Tensor bias = e.bias.defined() ? e.bias.contiguous() : e.bias;
  Tensor at = readable(e.derivative_at), residual = readable(e.residual), out = writable(y),
         pre = writable(e.preactivation);
  int rank = p.batch.rank();
  GemmParams params{.device = y.device(),
                    .m = p.m,
                    .n = p.n,
                    .k = p.k,
                    .outer = rank > 1 ? p.batch[rank - 2] : 1,
                    .inner = rank > 0 ? p.batch[rank - 1] : 1,
                    .dtype = p.a.dtype(),
                    .a = operand(p.a, p.a_matrix, p.a_batch),
                    .b = operand(p.b, p.b_matrix, p.b_batch),
                    .y = rows_of(out),
                    .preactivation = rows_of(pre),
                    .derivative_at = rows_of(at),
                    .residual = rows_of(residual),
                    .bias = gpu::pointer(bias),
                    .scale_by = gpu::pointer(e.scale_by),
                    .bias_dtype = bias.defined() ? bias.dtype() : f32,
                    .scale = e.scale,
                    .activation = e.activation,
                    .sums = e.sums,
                    .softmax = e.softmax};
  if (!launch_from(call, p, 0, params)) return false;
  if (out.impl() != y.impl()) y.copy_(out);
  if (pre.defined() && pre.impl() != e.preactivation.impl()) Tensor(e.preactivation).copy_(pre);
  return true;
}

}  // namespace etna::gemm
