#include <etna/tensor/ops/matmul/gemm/product.h>
#include <etna/tensor/ops/matmul/gemm/tier.h>
#include <etna/tensor/ops/matmul/gemm/tuned.h>
#include <etna/tensor/vulkan.h>

// From tensors to problems: copies what no kernel can read or write where it lies, walks the batch dimensions beyond the two that
// kernels know, and asks the launchers.
namespace etna::product {

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

Rows rows_of(const Tensor& x) { return x.defined() ? Rows{x.address(), x.dtype(), spacing(x)} : Rows{}; }

Tensor writable(const Tensor& x) { return x.defined() && spacing(x) == 0 ? empty_like(x) : x; }

Operand operand(const Tensor& x, const Matrix& matrix, const Strides& batch) {
  Operand o{x.address(), matrix.transposed, matrix.leading};
  for (int i = 0, first = batch.rank() - 2; i < 2; ++i)
    o.strides[static_cast<std::size_t>(i)] = first + i >= 0 ? batch[first + i] : 0;
  return o;
}

void advance(Rows& rows, std::int64_t by) {
  if (rows.address != 0) rows.address += static_cast<std::uint64_t>(by * rows.leading) * item_size(rows.dtype);
}

bool launch(const OpCall& call, Problem problem) {
  if (std::optional<Choice> choice = choice_for(problem)) {
    problem.cut = choice->cut;
    for (std::span<const Launcher> list : {launchers(), launchers_by_name()}) {
      for (const Launcher& launcher : list) {
        if (launcher.tier == choice->tier && launcher.launch(call, problem)) return true;
      }
    }
    problem.cut.reset();
  }
  for (const Launcher& launcher : launchers()) {
    if (launcher.launch(call, problem)) return true;
  }
  return false;
}

/// Batch dimensions that strides keep from merging into two are walked here.
bool launch_from(const OpCall& call, const Plan& plan, int dim, Problem problem) {
  if (plan.batch.rank() - dim <= 2) return launch(call, problem);
  std::int64_t below = problem.m;
  for (int d = dim + 1; d < plan.batch.rank(); ++d) below *= plan.batch[d];
  auto item = static_cast<std::int64_t>(item_size(problem.dtype));
  for (std::int64_t i = 0; i < plan.batch[dim]; ++i) {
    if (!launch_from(call, plan, dim + 1, problem)) return false;
    problem.a.address += static_cast<std::uint64_t>(plan.a_batch[dim] * item);
    problem.b.address += static_cast<std::uint64_t>(plan.b_batch[dim] * item);
    for (Rows* rows : {&problem.y, &problem.pre, &problem.derivative_at, &problem.residual}) advance(*rows, below);
  }
  return true;
}

/// A product over no elements is 0, which the same sum over one zero gives.
Tensor one_zero(const Tensor& x, int dim) {
  Shape shape = x.shape();
  shape[x.dim() + dim] = 1;
  return zeros(shape, {x.dtype(), x.device()});
}

}  // namespace

bool on_gpu(const OpCall& call, const Tensor& a, const Tensor& b, const Epilogue& e, Tensor& y) {
  for (const Tensor& x : {a, y, e.bias, e.pre, e.derivative_at, e.residual}) {
    if (x.defined() && x.dtype() == f64) return false;
  }
  if (y.numel() == 0) return true;
  if (a.size(-1) == 0) return on_gpu(call, one_zero(a, -1), one_zero(b, -2), e, y);
  Plan p = plan(a, b);
  Tensor bias = e.bias.defined() ? e.bias.contiguous() : e.bias;
  Tensor at = readable(e.derivative_at), residual = readable(e.residual), out = writable(y), pre = writable(e.pre);
  int rank = p.batch.rank();
  Problem problem{.m = p.m,
                  .n = p.n,
                  .k = p.k,
                  .outer = rank > 1 ? p.batch[rank - 2] : 1,
                  .inner = rank > 0 ? p.batch[rank - 1] : 1,
                  .dtype = p.a.dtype(),
                  .a = operand(p.a, p.a_matrix, p.a_batch),
                  .b = operand(p.b, p.b_matrix, p.b_batch),
                  .y = rows_of(out),
                  .pre = rows_of(pre),
                  .derivative_at = rows_of(at),
                  .residual = rows_of(residual),
                  .bias = vulkan::address_or_zero(bias),
                  .scale_by = vulkan::address_or_zero(e.scale_by),
                  .bias_dtype = bias.defined() ? bias.dtype() : f32,
                  .scale = e.scale,
                  .activation = e.activation};
  auto there = [](const Tensor& x) { return x.defined() ? &x : nullptr; };
  problem.reads = {&p.a, &p.b, there(bias), there(at), there(residual), there(e.scale_by)};
  problem.writes = {&out, there(pre)};
  if (!launch_from(call, p, 0, problem)) return false;
  if (out.impl() != y.impl()) y.copy_(out);
  if (pre.defined() && pre.impl() != e.pre.impl()) Tensor(e.pre).copy_(pre);
  return true;
}

}  // namespace etna::product
