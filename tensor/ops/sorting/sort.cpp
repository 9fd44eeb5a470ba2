#include <algorithm>

#include <fmt/format.h>

#include <etna/device/internal/cpu/parallel.h>
#include <etna/shaders/shaders.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/indexing/internal/put.h>
#include <etna/tensor/ops/kernel.h>
#include <etna/tensor/ops/sorting/internal/rows.h>
#include <etna/tensor/ops/sorting/order/internal/order.h>
#include <etna/tensor/ops/sorting/sorting.h>

// sort and topk: sort short rows, or find the order of the rows (order.h), then gather values and indices in it.
namespace etna {
namespace {

struct SortAttrs {
  bool descending;
  std::int64_t kept;  ///< elements kept of each row
};

std::vector<OutputSpec> sort_infer(const OpCall& call) {
  const Tensor& x = call.in[0];
  Shape shape = x.shape();
  if (shape.back() > std::int64_t{0x7fffffff})
    throw ShapeError(fmt::format("{}: rows of {} have more than 2^31 elements", call.op.name, str(shape)));
  shape.back() = call.as<SortAttrs>().kept;
  return {{shape, x.dtype()}, {shape, i64}};
}

void sort_cpu(const OpCall& call, std::span<Tensor> out) {
  const auto a = call.as<SortAttrs>();
  const Tensor x = call.in[0].contiguous();
  if (out[0].numel() == 0) return;
  auto* order = out[1].host<std::int64_t>();
  order::order_cpu(x, a.descending, a.kept, order);
  const std::int64_t n = x.size(-1);
  visit(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* from = x.host<T>();
    T* to = out[0].host<T>();
    cpu::parallel_for(out[0].numel(), 16384, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end;) {
        const std::int64_t row = i / a.kept, last = std::min(end, (row + 1) * a.kept);
        for (; i < last; ++i) to[i] = from[row * n + order[i]];
      }
    });
  });
}

bool sort_gpu(const OpCall& call, std::span<Tensor> out) {
  const auto a = call.as<SortAttrs>();
  if (out[0].dtype() == f64) return false;
  if (out[0].numel() == 0) return true;
  const Tensor x = call.in[0].contiguous();
  if (order::sort_rows_gpu(call, x, a.descending, a.kept, out[0], out[1])) return true;
  const order::SortedKeys sorted = order::order_gpu(call, x, a.descending, a.kept);
  gpu::Kernel(shaders::take_order, call)
      .spec(item_size(x.dtype()), x.dtype(), a.descending, sorted.keys.defined())
      .read(x)
      .read(sorted.order)
      .read(sorted.keys)
      .write(out[0])
      .write(out[1])
      .u32(out[0].numel(), a.kept, x.size(-1))
      .dispatch(gpu::grid(out[0].numel(), 1024));
  return true;
}

TensorList sort_vjp(const VjpCall& call) {
  if (!call.grad[0].defined()) return {zeros_like(call.in[0])};
  return {indexing::spread_along_last(call.op.name, call.in[0].shape(), call.out[1], call.grad[0])};
}

const OpDef kSort = {.name = "sort",
                     .infer = sort_infer,
                     .cpu = sort_cpu,
                     .gpu = sort_gpu,
                     .vjp = sort_vjp,
                     .saved = Saved::outputs,
                     .saved_outputs = 0b10};
const OpDef kTopk = {.name = "topk",
                     .infer = sort_infer,
                     .cpu = sort_cpu,
                     .gpu = sort_gpu,
                     .vjp = sort_vjp,
                     .saved = Saved::outputs,
                     .saved_outputs = 0b10};

ValuesIndices sort_ordered(const OpDef& op, const Tensor& x, int dim, bool descending, std::int64_t kept) {
  sorting::LastDim rows(x, dim);
  TensorList out = apply(op, {rows.x}, Attrs::of(SortAttrs{descending, kept}));
  return {rows.back(out[0]), rows.back(out[1])};
}

}  // namespace

ValuesIndices sort(const Tensor& x, std::int64_t dim, bool descending, bool) {
  detail::require_defined("sort", x);
  const int d = wrap_dim(dim, x.dim(), "sort");
  return sort_ordered(kSort, x, d, descending, x.dim() == 0 ? 1 : x.shape()[d]);
}
Tensor argsort(const Tensor& x, std::int64_t dim, bool descending, bool stable) {
  detail::require_defined("argsort", x);
  return sort(x.detach(), dim, descending, stable).indices;
}
Tensor msort(const Tensor& x) {
  detail::require_defined("msort", x);
  return sort(x, 0).values;
}

ValuesIndices topk(const Tensor& x, std::int64_t k, std::int64_t dim, bool largest, bool) {
  detail::require_defined("topk", x);
  const int d = wrap_dim(dim, x.dim(), "topk");
  const std::int64_t n = x.dim() == 0 ? 1 : x.shape()[d];
  if (k < 0 || k > n)
    throw ShapeError(fmt::format("topk: k is {}, dimension {} of {} has {} elements", k, d, str(x.shape()), n));
  return sort_ordered(kTopk, x, d, largest, k);
}

std::span<const OpDef* const> ops_in_sort() {
  static const OpDef* const list[] = {&kSort, &kTopk};
  return list;
}

}  // namespace etna
