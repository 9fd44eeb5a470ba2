#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include <etna/device/internal/cpu/parallel.h>
#include <etna/shaders/shaders.h>
#include <etna/tensor/op.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/indexing/internal/rows.h>
#include <etna/tensor/ops/kernel.h>
#include <etna/tensor/ops/rows/internal/strided.h>

// Slices whose start is a number on the device: every replay of a captured step may start at another element. Elements
// are copied as bytes. A start out of range throws on the CPU. On a GPU it is clamped, since the host does not wait for
// it.
namespace etna {
namespace {

struct DynamicSliceAttrs {
  int dim;
  std::int64_t length;
};

/// @param size of the dimension in x
void dynamic_slice_check(const char* op, const Tensor& x, const Tensor& start, std::int64_t dim, std::int64_t length) {
  indexing::check_index_dtype(op, start);
  if (start.dim() != 0) {
    throw ShapeError(fmt::format("{}: the start is {}, it must be one number, 0-d", op, str(start.shape())));
  }
  const std::int64_t size = x.shape()[static_cast<int>(dim)];
  if (length < 0 || length > size) {
    throw ShapeError(fmt::format("{}: a length of {} is outside [0, {}], dimension {} of {}", op, length, size, dim,
                                 str(x.shape())));
  }
}

/// Reads the start on the CPU. @param most the largest valid start
std::int64_t read_start(const OpCall& call, const Tensor& start, std::int64_t most) {
  const std::int64_t at = start.dtype() == i64 ? *start.host<std::int64_t>() : *start.host<std::int32_t>();
  if (at < 0 || at > most) {
    throw ShapeError(fmt::format("{}: a run from {} on does not lie within {}; the start must be in [0, {}]",
                                 call.op.name, at, str(call.in[0].shape()), most));
  }
  return at;
}

/// The memory of a run of x's dimension: bytes, merged into [outer, dimension, inner].
struct Run {
  rows::Strided x;
  std::int64_t item, outer;

  Run(const Tensor& given, int dim)
      : x(given, dim), item(static_cast<std::int64_t>(item_size(given.dtype()))), outer(x.rows / x.inner) {}

  const std::byte* at(std::int64_t o, std::int64_t j, std::int64_t i) const {
    return static_cast<const std::byte*>(x.x.raw_data()) +
           (o * x.strides[0] + j * x.strides[2] + i * x.strides[1]) * item;
  }
  /// Copies elements [first, first + length) of the dimension into a contiguous [outer, size, inner], starting at its
  /// element `to`.
  void copy(std::int64_t first, std::int64_t length, std::byte* target, std::int64_t size, std::int64_t to) const {
    const std::int64_t row = x.inner * item, runs = outer * length;
    const bool whole = x.strides[1] == 1 || x.inner == 1, dense = whole && x.strides[2] == x.inner;
    cpu::parallel_for(runs, std::max<std::int64_t>(1, 65536 / row), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end;) {
        const std::int64_t o = r / length, j = r % length, many = dense ? std::min(end - r, length - j) : 1;
        std::byte* out = target + (o * size + to + j) * row;
        if (whole) {
          std::memcpy(out, at(o, first + j, 0), static_cast<std::size_t>(many * row));
        } else {
          for (std::int64_t i = 0; i < x.inner; ++i)
            std::memcpy(out + i * item, at(o, first + j, i), static_cast<std::size_t>(item));
        }
        r += many;
      }
    });
  }
};

/// Dispatches shaders/indexing/dynamic_slice.comp. @param update undefined for a slice
void dispatch(const gpu::Shader& shader, const OpCall& call, const Tensor& y, const Tensor& update, const Tensor& start,
              int dim, std::int64_t length) {
  const rows::Strided x(call.in[0], dim);
  const auto item = static_cast<std::uint32_t>(item_size(y.dtype()));
  const bool dense = x.strides[1] == 1 || x.inner == 1;
  std::uint32_t unit = item;
  if (dense) {
    const auto bytes = [&](std::int64_t elements) { return static_cast<std::uint64_t>(elements) * item; };
    unit = indexing::unit({bytes(x.inner), bytes(x.strides[0]), bytes(x.strides[2]), x.x.address(), y.address(),
                           update.defined() ? update.address() : 0});
  }
  const std::int64_t wide = unit / item;
  gpu::Kernel(shader, call)
      .spec(unit, start.dtype() == i64)
      .write(y)
      .read(x.x)
      .read(update)
      .read(start)
      .u32(y.numel() / wide, length, x.inner / wide, x.length - length)
      .u32(x.strides[0] / wide, dense ? 1 : x.strides[1], x.strides[2] / wide)
      .dispatch(gpu::grid(y.numel() / wide, 256));
}

// ---- dynamic_slice: inputs x, start

std::vector<OutputSpec> dynamic_slice_infer(const OpCall& call) {
  const auto [dim, length] = call.as<DynamicSliceAttrs>();
  dynamic_slice_check("dynamic_slice", call.in[0], call.in[1], dim, length);
  Shape shape = call.in[0].shape();
  shape[dim] = length;
  return {{shape, call.in[0].dtype()}};
}

void dynamic_slice_cpu(const OpCall& call, std::span<Tensor> out) {
  const auto [dim, length] = call.as<DynamicSliceAttrs>();
  const std::int64_t start = read_start(call, call.in[1], call.in[0].shape()[dim] - length);
  if (out[0].numel() == 0) return;
  Run(call.in[0], dim).copy(start, length, static_cast<std::byte*>(out[0].raw_host()), length, 0);
}

bool dynamic_slice_gpu(const OpCall& call, std::span<Tensor> out) {
  const auto [dim, length] = call.as<DynamicSliceAttrs>();
  if (out[0].numel() > 0) dispatch(shaders::dynamic_slice, call, out[0], {}, call.in[1], dim, length);
  return true;
}

/// start, start + 1, ... as a tensor of `length` elements on start's device.
Tensor run_from(const Tensor& start, std::int64_t length) {
  return arange(0, static_cast<double>(length), 1, {i64, start.device()}) + start.to(i64);
}

TensorList dynamic_slice_reference(const OpCall& call) {
  const auto [dim, length] = call.as<DynamicSliceAttrs>();
  return {index_select(call.in[0], dim, run_from(call.in[1], length))};
}

TensorList dynamic_slice_vjp(const VjpCall& call) {
  if (!call.needs[0]) return {Tensor(), Tensor()};
  const Tensor& g = call.grad[0];
  const Tensor nothing = zeros(call.in[0].shape(), {g.dtype(), g.device()});
  return {dynamic_update_slice(nothing, g, call.as<DynamicSliceAttrs>().dim, call.in[1]), Tensor()};
}

const OpDef kDynamicSlice = {.name = "dynamic_slice",
                             .infer = dynamic_slice_infer,
                             .cpu = dynamic_slice_cpu,
                             .gpu = dynamic_slice_gpu,
                             .reference = dynamic_slice_reference,
                             .vjp = dynamic_slice_vjp,
                             .saved = Saved::inputs,
                             .saved_inputs = 0b10};

// ---- dynamic_update_slice: inputs x, update, start

std::vector<OutputSpec> dynamic_update_slice_infer(const OpCall& call) {
  const Tensor &x = call.in[0], &update = call.in[1];
  const auto [dim, length] = call.as<DynamicSliceAttrs>();
  if (update.dtype() != x.dtype()) {
    throw DtypeError(fmt::format("dynamic_update_slice: {} is written into {}; both must be of one dtype",
                                 name(update.dtype()), name(x.dtype())));
  }
  Shape wanted = x.shape();
  if (update.dim() == x.dim()) wanted[dim] = length;
  if (update.shape() != wanted) {
    throw ShapeError(
        fmt::format("dynamic_update_slice: an update {} does not fit {}; it must be equal except for "
                    "dimension {}",
                    str(update.shape()), str(x.shape()), dim));
  }
  dynamic_slice_check("dynamic_update_slice", x, call.in[2], dim, length);
  return {{x.shape(), x.dtype()}};
}

void dynamic_update_slice_cpu(const OpCall& call, std::span<Tensor> out) {
  const auto [dim, length] = call.as<DynamicSliceAttrs>();
  const std::int64_t size = call.in[0].shape()[dim], start = read_start(call, call.in[2], size - length);
  if (out[0].numel() == 0) return;
  auto* to = static_cast<std::byte*>(out[0].raw_host());
  Run(call.in[0], dim).copy(0, size, to, size, 0);
  if (length > 0) Run(call.in[1], dim).copy(0, length, to, size, start);
}

bool dynamic_update_slice_gpu(const OpCall& call, std::span<Tensor> out) {
  const auto [dim, length] = call.as<DynamicSliceAttrs>();
  if (out[0].numel() == 0) return true;
  dispatch(shaders::dynamic_update_slice, call, out[0], call.in[1].contiguous(), call.in[2], dim, length);
  return true;
}

TensorList dynamic_update_slice_reference(const OpCall& call) {
  const Tensor &x = call.in[0], &update = call.in[1];
  const auto [dim, length] = call.as<DynamicSliceAttrs>();
  if (length == 0 || x.numel() == 0) return {x.clone()};
  const Tensor place = arange(0, static_cast<double>(x.shape()[dim]), 1, {i64, x.device()}) - call.in[2].to(i64);
  Shape along = Dims::filled(x.dim(), 1);
  along[dim] = x.shape()[dim];
  const Tensor inside = logical_and(place >= 0, place < static_cast<double>(length)).reshape(along);
  const Tensor spread = index_select(update, dim, clamp(place, 0.0, static_cast<double>(length - 1)));
  return {where(inside, spread, x)};
}

TensorList dynamic_update_slice_vjp(const VjpCall& call) {
  const Tensor &g = call.grad[0], &start = call.in[2];
  const auto [dim, length] = call.as<DynamicSliceAttrs>();
  Tensor to_x, to_update;
  if (call.needs[0]) {
    to_x = dynamic_update_slice(g, zeros(call.in[1].shape(), {g.dtype(), g.device()}), dim, start);
  }
  if (call.needs[1]) to_update = dynamic_slice(g, dim, start, length);
  return {to_x, to_update, Tensor()};
}

const OpDef kUpdateSlice = {.name = "dynamic_update_slice",
                            .infer = dynamic_update_slice_infer,
                            .cpu = dynamic_update_slice_cpu,
                            .gpu = dynamic_update_slice_gpu,
                            .reference = dynamic_update_slice_reference,
                            .vjp = dynamic_update_slice_vjp,
                            .saved = Saved::inputs,
                            .saved_inputs = 0b100};

}  // namespace

Tensor dynamic_slice(const Tensor& x, std::int64_t dim, const Tensor& start, std::int64_t length) {
  detail::require_defined("dynamic_slice", x, start);
  if (x.dim() == 0) throw ShapeError("dynamic_slice: got a 0-d tensor; wanted at least one dimension");
  return apply1(kDynamicSlice, {x, start},
                Attrs::of(DynamicSliceAttrs{wrap_dim(dim, x.dim(), "dynamic_slice"), length}));
}

Tensor dynamic_update_slice(const Tensor& x, const Tensor& update, std::int64_t dim, const Tensor& start) {
  detail::require_defined("dynamic_update_slice", x, update, start);
  if (x.dim() == 0 || update.dim() != x.dim()) {
    throw ShapeError(
        fmt::format("dynamic_update_slice: an update {} does not fit {}; both need equally many dimensions",
                    str(update.shape()), str(x.shape())));
  }
  const int at = wrap_dim(dim, x.dim(), "dynamic_update_slice");
  return apply1(kUpdateSlice, {x, update, start}, Attrs::of(DynamicSliceAttrs{at, update.shape()[at]}));
}

std::span<const OpDef* const> ops_in_dynamic_slice() {
  static const OpDef* const list[] = {&kDynamicSlice, &kUpdateSlice};
  return list;
}

}  // namespace etna
