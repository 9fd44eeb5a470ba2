#include <algorithm>
#include <array>
#include <cstring>

#include <fmt/format.h>

#include <etna/device/internal/cpu/parallel.h>
#include <etna/shaders/shaders.h>
#include <etna/tensor/op.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/indexing/internal/binned_sums.h>
#include <etna/tensor/ops/indexing/internal/numbers.h>
#include <etna/tensor/ops/indexing/internal/put.h>
#include <etna/tensor/ops/indexing/internal/rows.h>
#include <etna/tensor/ops/kernel.h>

// Selecting along one dimension, and adding back. An index out of range throws IndexError: on the CPU at the call, on a
// GPU at the next wait for the device.
namespace etna {
namespace {

struct DimAttrs {
  int dim;
};

std::int64_t index_product(const Shape& shape, int begin, int end) {
  return numel(Shape(std::span(shape.begin() + begin, shape.begin() + end)), "index_select");
}

// ---- index_select

std::vector<OutputSpec> index_select_infer(const OpCall& call) {
  const Tensor &x = call.in[0], &index = call.in[1];
  int dim = call.as<DimAttrs>().dim;
  indexing::check_index_dtype("index_select", index);
  if (index.dim() > 1)
    throw ShapeError(fmt::format("index_select: the index is {}, it must be a list; use gather", str(index.shape())));
  Shape shape = x.shape();
  if (shape[dim] == 0 && index.numel() > 0) {
    throw ShapeError(
        fmt::format("index_select: dimension {} of {} is empty, there is nothing to choose from", dim, str(x.shape())));
  }
  shape[dim] = index.numel();
  return {{shape, x.dtype()}};
}

indexing::Selection index_selection(const OpCall& call, const Tensor& y) {
  const Tensor& x = call.in[0];
  int dim = call.as<DimAttrs>().dim;
  return {
      x, call.in[1], y, index_product(x.shape(), 0, dim), x.shape()[dim], index_product(x.shape(), dim + 1, x.dim())};
}
void index_select_cpu(const OpCall& call, std::span<Tensor> out) {
  indexing::select_cpu(call, index_selection(call, out[0]));
}
bool index_select_gpu(const OpCall& call, std::span<Tensor> out) {
  return indexing::select_gpu(call, index_selection(call, out[0]));
}

TensorList index_select_reference(const OpCall& call) {
  int dim = call.as<DimAttrs>().dim;
  Shape wanted = call.in[0].shape(), ones = Dims::filled(wanted.rank(), 1);
  wanted[dim] = ones[dim] = call.in[1].numel();
  return {gather(call.in[0], dim, call.in[1].reshape(ones).expand(wanted))};
}

/// Moves the selected dimension first and treats the rest as a table's row: the gradient is then embedding's.
TensorList index_select_vjp(const VjpCall& call) {
  if (!call.needs[0]) return {Tensor(), Tensor()};
  int dim = call.as<DimAttrs>().dim;
  Shape shape = call.in[0].shape();
  Dims to_front{dim}, back;
  for (int d = 0; d < shape.rank(); ++d) {
    if (d != dim) to_front.push_back(d);
    back.push_back(d == dim ? 0 : d < dim ? d + 1 : d);
  }
  Tensor g = call.grad[0].permute(to_front), index = call.in[1].reshape({call.in[1].numel()});
  Shape front = g.shape();
  g = embedding_backward(g.reshape({front[0], index_product(front, 1, front.rank())}), index, shape[dim]);
  front[0] = shape[dim];
  return {g.reshape(front).permute(back), Tensor()};
}

const OpDef kIndexSelect = {.name = "index_select",
                            .infer = index_select_infer,
                            .cpu = index_select_cpu,
                            .gpu = index_select_gpu,
                            .reference = index_select_reference,
                            .vjp = index_select_vjp,
                            .saved = Saved::inputs,
                            .saved_inputs = 0b10};

// ---- gather and scatter_add

void check_lines(const char* op, const Tensor& x, int dim, const Tensor& index) {
  indexing::check_index_dtype(op, index);
  bool fits = index.dim() == x.dim();
  for (int d = 0; fits && d < x.dim(); ++d) fits = d == dim || index.shape()[d] <= x.shape()[d];
  if (!fits) {
    throw ShapeError(fmt::format(
        "{}: an index {} does not match {}; it must have as many dimensions, none larger except dimension {}", op,
        str(index.shape()), str(x.shape()), dim));
  }
  if (index.numel() > 0 && x.shape()[dim] == 0) {
    throw ShapeError(
        fmt::format("{}: dimension {} of {} is empty, there is nothing to choose from", op, dim, str(x.shape())));
  }
}

std::vector<OutputSpec> gather_infer(const OpCall& call) {
  check_lines("gather", call.in[0], call.as<DimAttrs>().dim, call.in[1]);
  return {{call.in[1].shape(), call.in[0].dtype()}};
}

/// Offset of element i of `shape` in a tensor with `strides`, ignoring dimension `dim`.
std::int64_t offset_of(std::int64_t i, const Shape& shape, const Strides& strides, int dim) {
  std::int64_t offset = 0;
  for (int d = shape.rank() - 1; d >= 0; --d) {
    if (d != dim) offset += i % shape[d] * strides[d];
    i /= shape[d];
  }
  return offset;
}

void gather_cpu(const OpCall& call, std::span<Tensor> out) {
  const Tensor& x = call.in[0];
  int dim = call.as<DimAttrs>().dim;
  Tensor index = indexing::checked_index("gather", call.in[1], x.shape()[dim]);
  const std::int64_t* chosen = index.host<std::int64_t>();
  visit(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* from = x.host<T>();
    T* to = out[0].host<T>();
    cpu::parallel_for(index.numel(), 4096, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        to[i] = from[offset_of(i, index.shape(), x.strides(), dim) + chosen[i] * x.strides()[dim]];
      }
    });
  });
}

bool gather_gpu(const OpCall& call, std::span<Tensor> out) {
  if (out[0].numel() == 0) return true;
  const Tensor& x = call.in[0];
  Tensor index = call.in[1].contiguous();
  int dim = call.as<DimAttrs>().dim;
  std::array<std::uint32_t, 8> sizes = {}, strides = {};
  for (int d = 0; d < x.dim(); ++d) {
    sizes[static_cast<std::size_t>(d)] = gpu::u32(index.shape()[d]);
    strides[static_cast<std::size_t>(d)] = gpu::u32(x.strides()[d]);
  }
  gpu::Kernel(shaders::gather, call)
      .spec(item_size(x.dtype()), index.dtype(), x.dim(), dim)
      .write(out[0])
      .read(x)
      .read(index)
      .index_errors()
      .u32(index.numel(), x.shape()[dim])
      .u32(sizes)
      .u32(strides)
      .dispatch(gpu::grid(index.numel(), 1024));
  return true;
}

TensorList gather_vjp(const VjpCall& call) {
  if (!call.needs[0]) return {Tensor(), Tensor()};
  const Tensor& g = call.grad[0];
  return {scatter_add(zeros(call.in[0].shape(), {g.dtype(), g.device()}), call.as<DimAttrs>().dim, call.in[1], g),
          Tensor()};
}

const OpDef kGather = {.name = "gather",
                       .infer = gather_infer,
                       .cpu = gather_cpu,
                       .gpu = gather_gpu,
                       .vjp = gather_vjp,
                       .saved = Saved::inputs,
                       .saved_inputs = 0b10};

std::vector<OutputSpec> scatter_add_infer(const OpCall& call) {
  const Tensor &x = call.in[0], &index = call.in[1], &source = call.in[2];
  check_lines("scatter_add", x, call.as<DimAttrs>().dim, index);
  if (source.shape() != index.shape()) {
    throw ShapeError(fmt::format("scatter_add: the source is {}, smaller than the index {}", str(source.shape()),
                                 str(index.shape())));
  }
  if (source.dtype() != x.dtype() || x.dtype() == boolean) {
    throw DtypeError(fmt::format("scatter_add: {} is added to {}; both must be of one dtype that is not bool",
                                 name(source.dtype()), name(x.dtype())));
  }
  return {{x.shape(), x.dtype()}};
}

/// Accumulates in a wider buffer, so that f32 loses nothing and f16 and bf16 are rounded once.
void scatter_add_cpu(const OpCall& call, std::span<Tensor> out) {
  int dim = call.as<DimAttrs>().dim;
  out[0].copy_(call.in[0]);
  Tensor index = indexing::checked_index("scatter_add", call.in[1], out[0].shape()[dim]),
         source = call.in[2].contiguous();
  if (index.numel() == 0) return;
  if (index.dim() == 1 && indexing::add_numbers(out[0], index, source)) return;
  std::int64_t length = index.shape()[dim], size = out[0].shape()[dim], step = out[0].strides()[dim];
  std::int64_t index_step = index.strides()[dim], lines = index.numel() / length;
  Shape others = index.shape();
  others[dim] = 1;
  Strides index_strides = contiguous_strides(index.shape()), out_strides = out[0].strides();
  const std::int64_t* chosen = index.host<std::int64_t>();
  visit(out[0].dtype(), [&](auto zero) {
    using T = decltype(zero);
    using Narrow = std::conditional_t<sizeof(T) == 2, float, T>;
    using Sum = std::conditional_t<std::is_integral_v<T>, std::uint64_t, double>;
    const T* from = source.host<T>();
    T* to = out[0].host<T>();
    auto widen = [](T value) { return static_cast<Sum>(static_cast<Narrow>(value)); };
    cpu::parallel_for(
        lines, std::max<std::int64_t>(1, 16384 / (size + length)), [&](std::int64_t begin, std::int64_t end) {
          std::vector<Sum> sums(length > 1 ? static_cast<std::size_t>(size) : 0);
          for (std::int64_t l = begin; l < end; ++l) {
            std::int64_t at = offset_of(l, others, index_strides, dim);
            T* line = to + offset_of(l, others, out_strides, dim);
            if (length == 1) {
              T& element = line[chosen[at] * step];
              element = T(static_cast<Narrow>(widen(element) + widen(from[at])));
              continue;
            }
            for (std::int64_t i = 0; i < size; ++i) sums[static_cast<std::size_t>(i)] = widen(line[i * step]);
            for (std::int64_t j = 0; j < length; ++j) {
              sums[static_cast<std::size_t>(chosen[at + j * index_step])] += widen(from[at + j * index_step]);
            }
            for (std::int64_t i = 0; i < size; ++i)
              line[i * step] = T(static_cast<Narrow>(sums[static_cast<std::size_t>(i)]));
          }
        });
  });
}

bool scatter_add_gpu(const OpCall& call, std::span<Tensor> out) {
  Tensor& y = out[0];
  if (y.dtype() == f64) return false;
  if (y.numel() == 0) return true;
  int dim = call.as<DimAttrs>().dim;
  // The kernel below reads a whole line of the index for each element of y. For longer lines, sorting is cheaper.
  if (call.in[1].numel() > 0 && call.in[1].shape()[dim] > 128) {
    const std::int64_t n = call.in[1].numel();
    if (y.dim() == 1 && indexing::can_check_in_bins(y, n)) {
      y.copy_(call.in[0]);
      indexing::check_and_add_in_bins(call, y, call.in[1].contiguous(), call.in[2].contiguous());
      return true;
    }
    const Tensor places = indexing::places_along("scatter_add", y.shape(), dim, call.in[1]).reshape({n});
    y.copy_(call.in[0]);
    put_rows_(y.reshape({y.numel(), 1}), places, call.in[2].reshape({n, 1}), indexing::PutMode::add);
    return true;
  }
  Tensor x = call.in[0].contiguous(), index = call.in[1].contiguous(), source = call.in[2].contiguous();
  std::array<std::uint32_t, 8> sizes = {}, extents = {};
  for (int d = 0; d < y.dim(); ++d) {
    sizes[static_cast<std::size_t>(d)] = gpu::u32(y.shape()[d]);
    extents[static_cast<std::size_t>(d)] = gpu::u32(index.shape()[d]);
  }
  const gpu::Variants variants{shaders::scatter_add_float, shaders::scatter_add_int, shaders::scatter_add_i64,
                               shaders::scatter_add_pairs};
  gpu::Kernel(variants.of(y.dtype(), y.device()), call)
      .spec(y.dtype(), index.dtype(), y.dim(), dim)
      .write(y)
      .read(x)
      .read(index)
      .read(source)
      .index_errors()
      .u32(y.numel(), contiguous_strides(index.shape())[dim])
      .u32(sizes)
      .u32(extents)
      .dispatch(gpu::grid(y.numel(), 256));
  return true;
}

TensorList scatter_add_vjp(const VjpCall& call) {
  const Tensor& g = call.grad[0];
  return {call.needs[0] ? g : Tensor(), Tensor(),
          call.needs[2] ? gather(g, call.as<DimAttrs>().dim, call.in[1]) : Tensor()};
}

const OpDef kScatterAdd = {.name = "scatter_add",
                           .infer = scatter_add_infer,
                           .cpu = scatter_add_cpu,
                           .gpu = scatter_add_gpu,
                           .vjp = scatter_add_vjp,
                           .saved = Saved::inputs,
                           .saved_inputs = 0b10};

/// Treats a 0-d tensor as a list of one element.
Tensor index_at_least_1d(const Tensor& x) { return x.dim() == 0 ? x.reshape({1}) : x; }

}  // namespace

Tensor index_select(const Tensor& x, std::int64_t dim, const Tensor& index) {
  detail::require_defined("index_select", x, index);
  Tensor list = index_at_least_1d(x);
  return apply1(kIndexSelect, {list, index}, Attrs::of(DimAttrs{wrap_dim(dim, list.dim(), "index_select")}));
}

Tensor gather(const Tensor& x, std::int64_t dim, const Tensor& index) {
  detail::require_defined("gather", x, index);
  Tensor lines = index_at_least_1d(x);
  Tensor y =
      apply1(kGather, {lines, index_at_least_1d(index)}, Attrs::of(DimAttrs{wrap_dim(dim, lines.dim(), "gather")}));
  return index.dim() == 0 ? y.reshape({}) : y;
}

Tensor scatter_add(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& source) {
  detail::require_defined("scatter_add", x, index, source);
  Tensor lines = index_at_least_1d(x), places = index_at_least_1d(index), added = index_at_least_1d(source);
  int at = wrap_dim(dim, lines.dim(), "scatter_add");
  // Elements of the source that the index does not cover are ignored.
  if (added.dim() == places.dim()) {
    for (int d = 0; d < added.dim(); ++d) {
      if (added.shape()[d] > places.shape()[d]) added = added.slice(d, 0, places.shape()[d]);
    }
  }
  Tensor y = apply1(kScatterAdd, {lines, places, added}, Attrs::of(DimAttrs{at}));
  return x.dim() == 0 ? y.reshape({}) : y;
}

std::span<const OpDef* const> ops_in_index() {
  static const OpDef* const list[] = {&kIndexSelect, &kGather, &kScatterAdd};
  return list;
}

}  // namespace etna
