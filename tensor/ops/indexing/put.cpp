#include <algorithm>
#include <array>
#include <cstring>

#include <fmt/format.h>

#include <etna/device/internal/cpu/parallel.h>
#include <etna/device/internal/cpu/scratch.h>
#include <etna/shaders/shaders.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/indexing/internal/binned_sums.h>
#include <etna/tensor/ops/indexing/internal/numbers.h>
#include <etna/tensor/ops/indexing/internal/put.h>
#include <etna/tensor/ops/indexing/internal/rows.h>
#include <etna/tensor/ops/kernel.h>
#include <etna/tensor/ops/rows/internal/rows.h>
#include <etna/tensor/ops/sorting/order/internal/order.h>

// Rows for one place are combined in the order of the source, on every device. A GPU sorts the places, so that rows for
// one place become adjacent; it adds many single numbers in bins, where order does not matter.
namespace etna::indexing {
namespace {

struct PutAttrs {
  PutMode mode;
  bool distinct;
  bool in_place;
};

std::vector<OutputSpec> put_infer(const OpCall& call) {
  const Tensor &table = call.in[0], &places = call.in[1], &source = call.in[2];
  if (table.dim() != 2 || places.dim() != 1 || source.dim() != 2 || source.size(0) != places.size(0) ||
      source.size(1) != table.size(1)) {
    throw ShapeError(
        fmt::format("{}: rows {} do not match places {} of a table {}; they must be [M, W], [M] and [N, W]",
                    call.op.name, str(source.shape()), str(places.shape()), str(table.shape())));
  }
  if (source.dtype() != table.dtype()) {
    throw DtypeError(fmt::format("{}: rows of {} are put into a table of {}; both must be of one dtype", call.op.name,
                                 name(source.dtype()), name(table.dtype())));
  }
  return {{table.shape(), table.dtype(), call.as<PutAttrs>().in_place ? 0 : -1}};
}

// ---- CPU

template <typename T>
T combine(PutMode mode, T a, T b) {
  if constexpr (std::is_same_v<T, bool>) {
    return b;
  } else {
    if (mode == PutMode::add || mode == PutMode::multiply) {
      using U = std::conditional_t<std::is_integral_v<T>, std::uint64_t, T>;  // integers wrap
      const U x = static_cast<U>(a), y = static_cast<U>(b);
      return static_cast<T>(mode == PutMode::add ? x + y : x * y);
    }
    if (a != a) return a;
    if (b != b) return b;
    return (mode == PutMode::largest) == (a < b) ? b : a;
  }
}

/// Calls body(row of the source, place) in order. Wide rows are divided among several threads, each with some of the
/// places.
template <typename Place, typename Body>
void for_each_place(const Place* places, std::int64_t count, std::int64_t table_rows, std::int64_t width,
                    const Body& body) {
  const std::int64_t parts = width >= 16 && count * width > 65536 ? 8 : 1;
  cpu::parallel_for(parts, 1, [&](std::int64_t begin, std::int64_t end) {
    const std::int64_t low = table_rows * begin / parts, high = table_rows * end / parts;
    for (std::int64_t i = 0; i < count; ++i) {
      const auto place = static_cast<std::int64_t>(places[i]);
      if (place >= low && place < high) body(i, place);
    }
  });
}

/// @param to the table's values in T: its own memory, or converted copies
template <typename T, typename S>
void combine_into(T* to, const Tensor& y, const Tensor& places, const Tensor& source, PutMode mode) {
  const std::int64_t width = y.size(1), count = places.numel();
  const S* from = source.host<S>();
  visit(places.dtype(), [&](auto zero) {
    using Place = decltype(zero);
    if constexpr (std::is_same_v<Place, std::int32_t> || std::is_same_v<Place, std::int64_t>) {
      for_each_place(places.host<Place>(), count, y.size(0), width, [&](std::int64_t i, std::int64_t place) {
        T* row = to + place * width;
        const S* added = from + i * width;
        if (mode == PutMode::add) {
          for (std::int64_t c = 0; c < width; ++c) row[c] = combine(PutMode::add, row[c], rows::convert<T>(added[c]));
        } else {
          for (std::int64_t c = 0; c < width; ++c) row[c] = combine(mode, row[c], rows::convert<T>(added[c]));
        }
      });
    }
  });
}

void replace_rows(const Tensor& y, const Tensor& places, const Tensor& source) {
  const auto item = static_cast<std::int64_t>(item_size(y.dtype()));
  const std::int64_t row = y.size(1) * item;
  auto* to = static_cast<std::byte*>(y.raw_host());
  const auto* from = static_cast<const std::byte*>(source.raw_data());
  visit(places.dtype(), [&](auto zero) {
    using Place = decltype(zero);
    if constexpr (std::is_same_v<Place, std::int32_t> || std::is_same_v<Place, std::int64_t>) {
      for_each_place(places.host<Place>(), places.numel(), y.size(0), y.size(1), [&](std::int64_t i, std::int64_t at) {
        std::memcpy(to + at * row, from + i * row, static_cast<std::size_t>(row));
      });
    }
  });
}

void put_cpu(const OpCall& call, std::span<Tensor> out) {
  const auto a = call.as<PutAttrs>();
  Tensor& y = out[0];
  if (!a.in_place) y.copy_(call.in[0]);
  const Tensor places = call.in[1].contiguous(), source = call.in[2].contiguous();
  if (source.numel() == 0) return;
  if (a.mode == PutMode::replace) return replace_rows(y, places, source);
  if (a.mode == PutMode::add && y.size(1) == 1 && add_numbers(y, places, source)) return;
  visit(y.dtype(), [&](auto zero) {
    using S = decltype(zero);
    // Sums and products of f16 and bf16, and of many floats, are rounded once.
    auto through = [&](auto wide_zero) {
      using T = decltype(wide_zero);
      const std::int64_t n = y.numel();
      cpu::Scratch<T> wide(static_cast<std::size_t>(n));
      rows::convert_run(y.host<S>(), wide.data(), n);
      combine_into<T, S>(wide.data(), y, places, source, a.mode);
      rows::convert_run(wide.data(), y.host<S>(), n);
    };
    if constexpr (std::is_same_v<S, Half> || std::is_same_v<S, BFloat16>) {
      through(float{});
    } else if (std::is_same_v<S, float> && 4 * places.numel() >= y.size(0)) {
      through(double{});
    } else {
      combine_into<S, S>(y.host<S>(), y, places, source, a.mode);
    }
  });
}

// ---- GPU

void replace_on_gpu(const OpCall& call, const Tensor& y, const Tensor& places, const Tensor& given, bool distinct) {
  bool repeats = true;
  for (int d = 0; d < 2; ++d) repeats = repeats && (given.shape()[d] == 1 || given.strides()[d] == 0);
  const Tensor source = repeats ? given : given.contiguous();
  const std::int64_t width = y.size(1), count = places.numel();
  const auto item = static_cast<std::uint32_t>(item_size(y.dtype()));
  std::uint32_t unit = item;
  if (!repeats) unit = indexing::unit({static_cast<std::uint64_t>(width) * item, source.address(), y.address()});
  const std::int64_t wide = unit / item;
  order::SortedKeys sorted{places, {}};
  if (!distinct) sorted = order::sort_keys_gpu(call, places, y.size(0));
  gpu::Kernel(shaders::put_rows, call)
      .spec(unit, !distinct)
      .read_write(y)
      .read(source)
      .read(sorted.keys)
      .read(sorted.order)
      .u32(count, width / wide, repeats ? 0 : width / wide, repeats ? 0 : 1)
      .dispatch(gpu::grid(count * (width / wide), 1024));
}

void combine_on_gpu(const OpCall& call, const Tensor& y, const Tensor& places, const Tensor& source, PutMode mode) {
  constexpr std::int64_t kSegment = 32;
  const DType partial = is_floating(y.dtype()) ? f32 : y.dtype() == i64 ? i64 : i32;
  const gpu::Variants variants{shaders::combine_rows_float, shaders::combine_rows_int, shaders::combine_rows_i64,
                               shaders::combine_rows_pairs};
  const gpu::Shader& shader = variants.of(partial, y.device());
  const std::int64_t width = y.size(1);
  order::SortedKeys sorted = order::sort_keys_gpu(call, places, y.size(0));
  Tensor keys = sorted.keys, order = sorted.order, from = source;
  for (std::int64_t count = places.numel();;) {
    const std::int64_t segments = (count + kSegment - 1) / kSegment;
    Tensor next_keys, next;
    if (segments > 1) {
      next_keys = empty({2 * segments}, {i32, y.device()});
      next = empty({2 * segments, width}, {partial, y.device()});
    }
    gpu::Kernel(shader, call)
        .spec(y.dtype(), from.dtype(), partial, static_cast<int>(mode))
        .read_write(y)
        .read(from)
        .read(keys)
        .read(order)
        .write(next_keys)
        .write(next)
        .u32(count, width)
        .dispatch(gpu::grid(segments * width, 256));
    if (segments == 1) return;
    count = 2 * segments;
    keys = next_keys, from = next, order = Tensor();
  }
}

bool put_gpu(const OpCall& call, std::span<Tensor> out) {
  const auto a = call.as<PutAttrs>();
  Tensor& y = out[0];
  const bool combines = a.mode != PutMode::replace;
  if (call.in[1].dtype() != i32 || (combines && y.dtype() == f64)) return false;
  if (y.numel() == 0) return true;
  if (!a.in_place) y.copy_(call.in[0]);
  const Tensor places = call.in[1].contiguous();
  if (call.in[2].numel() == 0) return true;
  if (a.mode == PutMode::add && y.size(1) == 1 && can_add_in_bins(y, places.numel())) {
    add_in_bins(call, y, places, call.in[2].contiguous());
  } else if (combines) {
    combine_on_gpu(call, y, places, call.in[2].contiguous(), a.mode);
  } else {
    replace_on_gpu(call, y, places, call.in[2], a.distinct);
  }
  return true;
}

// ---- gradients

Tensor number(const Tensor& like, const Tensor& places, double value) {
  const Tensor one = full({1, 1}, value, {like.dtype(), like.device()});
  return one.expand({places.numel(), like.size(1)});
}
Tensor rows_at(const Tensor& table, const Tensor& places) { return index_select(table, 0, places); }

/// True for the rows of the source that remain in the table: the last of several rows for one place.
Tensor is_last(const Tensor& table, const Tensor& places) {
  const std::int64_t count = places.numel();
  const Tensor own = numbers(count, places.device()).reshape({count, 1});
  const Tensor last = put_rows(zeros({table.size(0), 1}, {own.dtype(), own.device()}), places, own, PutMode::replace);
  return eq(rows_at(last, places), own);
}

TensorList replace_vjp(const VjpCall& call, const Tensor& g) {
  const Tensor& places = call.in[1];
  TensorList to(3);
  if (call.needs[0]) to[0] = put_rows(g, places, number(g, places, 0), PutMode::replace, true);
  if (call.needs[2]) {
    to[2] = rows_at(g, places);
    if (!call.as<PutAttrs>().distinct) to[2] = where(is_last(g, places), to[2], 0.0);
  }
  return to;
}

/// For each factor, the product of all other factors. Zeros are counted, so that a single zero does not spoil its
/// gradient.
TensorList multiply_vjp(const VjpCall& call, const Tensor& g) {
  const Tensor &x = call.in[0], &places = call.in[1], &source = call.in[2];
  const DType counting = x.dtype() == f64 ? f64 : f32;
  auto factors = [&](const Tensor& table, const Tensor& rows) {
    return put_rows(table, places, rows, PutMode::multiply);
  };
  TensorList to(3);
  if (call.needs[0]) to[0] = g * factors(ones_like(x), source);
  if (!call.needs[2]) return to;
  const Tensor zero = eq(source, 0.0), nonzero = where(zero, 1.0, source), x_zero = eq(x, 0.0);
  const Tensor zeros_there = put_rows(cast(x_zero, counting), places, cast(zero, counting), PutMode::add);
  const Tensor product = factors(where(x_zero, 1.0, x), nonzero);
  const Tensor at_zero = where(eq(zeros_there, 1.0), product, 0.0);
  const Tensor elsewhere = where(eq(zeros_there, 0.0), product, 0.0);
  to[2] = rows_at(g, places) * where(zero, rows_at(at_zero, places), rows_at(elsewhere, places) / nonzero);
  return to;
}

/// Equal extremes share the gradient.
TensorList extreme_vjp(const VjpCall& call, const Tensor& g) {
  const Tensor &x = call.in[0], &places = call.in[1], &source = call.in[2], &y = call.out[0];
  const DType counting = x.dtype() == f64 ? f64 : f32;
  const Tensor own = cast(eq(x, y), counting), others = cast(eq(source, rows_at(y, places)), counting);
  const Tensor share = g / put_rows(own, places, others, PutMode::add);
  TensorList to(3);
  if (call.needs[0]) to[0] = (own * share).to(x.dtype());
  if (call.needs[2]) to[2] = (others * rows_at(share, places)).to(x.dtype());
  return to;
}

TensorList put_vjp(const VjpCall& call) {
  const Tensor& g = call.grad[0];
  switch (call.as<PutAttrs>().mode) {
    case PutMode::replace:
      return replace_vjp(call, g);
    case PutMode::add:
      return {g, Tensor(), call.needs[2] ? rows_at(g, call.in[1]) : Tensor()};
    case PutMode::multiply:
      return multiply_vjp(call, g);
    default:
      return extreme_vjp(call, g);
  }
}

// ---- rows of distinct places: the gradient needs neither a sum nor a sort

std::vector<OutputSpec> take_distinct_infer(const OpCall& call) {
  return {{Shape{call.in[1].numel(), call.in[0].size(1)}, call.in[0].dtype()}};
}
indexing::Selection selection(const OpCall& call, const Tensor& y) {
  return {call.in[0], call.in[1], y, 1, call.in[0].size(0), call.in[0].size(1)};
}
void take_distinct_cpu(const OpCall& call, std::span<Tensor> out) {
  indexing::select_cpu(call, selection(call, out[0]));
}
bool take_distinct_gpu(const OpCall& call, std::span<Tensor> out) {
  return indexing::select_gpu(call, selection(call, out[0]));
}
TensorList take_distinct_vjp(const VjpCall& call) {
  const Tensor& g = call.grad[0];
  if (!call.needs[0]) return {Tensor(), Tensor()};
  const Tensor nothing = zeros(call.in[0].shape(), {g.dtype(), g.device()});
  return {put_rows(nothing, call.in[1], g, PutMode::replace, true), Tensor()};
}
const OpDef kTake = {.name = "take_distinct",
                     .infer = take_distinct_infer,
                     .cpu = take_distinct_cpu,
                     .gpu = take_distinct_gpu,
                     .vjp = take_distinct_vjp,
                     .saved = Saved::inputs,
                     .saved_inputs = 0b10};

// One definition for each set of tensors that backward reads.
const OpDef kPut = {.name = "put_rows",
                    .infer = put_infer,
                    .cpu = put_cpu,
                    .gpu = put_gpu,
                    .vjp = put_vjp,
                    .saved = Saved::inputs,
                    .saved_inputs = 0b010};
const OpDef kReduce = {
    .name = "reduce_rows", .infer = put_infer, .cpu = put_cpu, .gpu = put_gpu, .vjp = put_vjp, .saved = Saved::both};
const OpDef kPutInPlace = {.name = "put_rows_", .infer = put_infer, .cpu = put_cpu, .gpu = put_gpu};

}  // namespace

Tensor put_rows(const Tensor& table, const Tensor& places, const Tensor& source, PutMode mode, bool distinct) {
  const OpDef& op = mode == PutMode::replace || mode == PutMode::add ? kPut : kReduce;
  return apply1(op, {table, places, source}, Attrs::of(PutAttrs{mode, distinct, false}));
}

void put_rows_(const Tensor& table, const Tensor& places, const Tensor& source, PutMode mode, bool distinct) {
  GradMode off(false);
  apply1(kPutInPlace, {table, places, source}, Attrs::of(PutAttrs{mode, distinct, true}));
}

Tensor take_distinct(const Tensor& table, const Tensor& places) { return apply1(kTake, {table, places}); }

Tensor spread_along_last(const char* op, const Shape& shape, const Tensor& index, const Tensor& source) {
  const std::int64_t total = numel(shape, op);
  const Tensor table = zeros({total, 1}, {source.dtype(), source.device()});
  const Tensor places = places_along(op, shape, shape.rank() - 1, index).reshape({index.numel()});
  return put_rows(table, places, source.reshape({index.numel(), 1}), PutMode::replace, true).reshape(shape);
}

}  // namespace etna::indexing

namespace etna {

std::span<const OpDef* const> ops_in_put() {
  static const OpDef* const list[] = {&indexing::kPut, &indexing::kReduce, &indexing::kPutInPlace, &indexing::kTake};
  return list;
}

}  // namespace etna
