#include <etna/tensor/ops/kernel.h>
#include <etna/tensor/ops/matmul/gemm/internal/gemm.h>
#include <etna/tensor/ops/matmul/gemm/internal/tuned.h>
#include <etna/tensor/ops/matmul/gemm/internal/variant.h>

// Converts tensors to GemmParams: copies operands whose layout no kernel can read or write, iterates over batch
// dimensions beyond the two that kernels support, unless copies that merge them are cheaper, and tries the launchers.
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

/// The operand with its matrices side by side: a copy, in the order in which each matrix is stored.
/// @param x [..., M, K] @param whole the batch dimensions to which x is broadcast
Tensor side_by_side(const Tensor& x, const Matrix& matrix, Shape whole) {
  whole.push_back(x.size(-2));
  whole.push_back(x.size(-1));
  const Tensor all = x.expand(whole);
  return matrix.transposed ? all.transpose(-2, -1).contiguous().transpose(-2, -1) : all.contiguous();
}

/// True if an operand's matrices are evenly spaced, or one.
bool runs_on(const Shape& batch, const Strides& strides) {
  for (int d = 0; d + 1 < batch.rank(); ++d) {
    if (strides[d] != strides[d + 1] * batch[d + 1]) return false;
  }
  return true;
}

/// The plan, with operands copied whose batches do not merge if their dispatches one by one would take longer.
Plan plan_of_few(const OpCall& call, const Tensor& a, const Tensor& b, Device device) {
  Plan p = plan(a, b);
  const int rank = p.batch.rank();
  GemmParams params;
  params.device = device, params.dtype = a.dtype();
  params.m = p.m, params.n = p.n, params.k = p.k, params.inner = numel(p.batch);
  const int at_once = batch_dimensions_at_once(params), together = std::min(rank, at_once);
  std::int64_t dispatches = 1, elements = 0;
  for (int d = 0; d < rank - together; ++d) dispatches *= p.batch[d];
  if (dispatches <= 2) return p;
  const bool copies_a = !runs_on(p.batch, p.a_batch), copies_b = !runs_on(p.batch, p.b_batch);
  if (copies_a) elements += params.inner * p.m * p.k;
  if (copies_b) elements += params.inner * p.n * p.k;
  const double bytes = 2 * static_cast<double>(elements) * static_cast<double>(item_size(a.dtype()));
  // Of a dispatch that no other one hides, and of the memory of Hopper and of any GPU.
  const double dispatch_us = 4, bytes_a_us = at_once == 1 ? 2.5e6 : 5e5;
  if (static_cast<double>(dispatches - 1 - copies_a - copies_b) * dispatch_us < bytes / bytes_a_us) return p;
  const Shape batch = batch_of(call, a, b);
  return plan(copies_a ? side_by_side(p.a, p.a_matrix, batch) : p.a,
              copies_b ? side_by_side(p.b, p.b_matrix, batch) : p.b);
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
  Plan p = plan_of_few(call, a, b, y.device());
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
