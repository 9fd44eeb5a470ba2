#include <fmt/format.h>

#include <etna/device/internal/cpu/parallel.h>
#include <etna/shaders/shaders.h>
#include <etna/tensor/ops/indexing/internal/put.h>
#include <etna/tensor/ops/indexing/internal/rows.h>
#include <etna/tensor/ops/kernel.h>
#include <etna/tensor/ops/rows/internal/rows.h>

// Index tensors as places in a table. An index out of range throws IndexError under the name of the op that the user
// called: on the CPU at the call, on a GPU at the next wait for the device.
namespace etna::indexing {
namespace {

std::vector<OutputSpec> linear_index_infer(const OpCall& call) {
  const Tensor& index = call.in[0];
  const auto a = call.as<LinearIndexAttrs>();
  indexing::check_index_dtype(a.op, index);
  if (index.numel() > 0 && a.limit == 0) {
    throw ShapeError(fmt::format("{}: an index {} into a dimension of size 0: there is nothing to choose from", a.op,
                                 str(index.shape())));
  }
  return {{index.shape(), a.wide ? i64 : i32}};
}

template <typename Place>
void fill(const LinearIndexAttrs& a, const Tensor& index, const Tensor& base, Place* places) {
  const std::int64_t* chosen = index.host<std::int64_t>();
  const Place* from = base.defined() ? base.host<Place>() : nullptr;
  bool strided = false;
  for (std::int64_t s : a.strides) strided = strided || s != 0;
  const bool plain = !strided && from == nullptr && !a.wraps && a.factor == 1;
  cpu::parallel_for(index.numel(), 8192, [&](std::int64_t begin, std::int64_t end) {
    if (plain) {
      // Branch-free, so that it vectorizes; the loop below finds the index that is out of range.
      const auto limit = static_cast<std::uint64_t>(a.limit);
      std::uint64_t outside = 0;
      for (std::int64_t i = begin; i < end; ++i) {
        outside |= static_cast<std::uint64_t>(chosen[i]) >= limit ? 1 : 0;
        places[i] = static_cast<Place>(chosen[i]);
      }
      if (outside == 0) return;
    }
    for (std::int64_t i = begin; i < end; ++i) {
      std::int64_t at = chosen[i];
      if (a.wraps && at < 0) at += a.limit;
      if (at < 0 || at >= a.limit) {
        throw IndexError(fmt::format("{}: index {} at position {} is outside [{}, {})", a.op, chosen[i], i,
                                     a.wraps ? -a.limit : 0, a.limit));
      }
      at *= a.factor;
      if (strided) at += rows::offset_of(index.shape(), a.strides, i);
      places[i] = static_cast<Place>(at + (from != nullptr ? from[i] : 0));
    }
  });
}

void linear_index_cpu(const OpCall& call, std::span<Tensor> out) {
  const auto a = call.as<LinearIndexAttrs>();
  const Tensor index = call.in[0].to(i64).contiguous(),
               base = call.in[1].defined() ? call.in[1].contiguous() : Tensor();
  if (a.wide) {
    fill(a, index, base, out[0].host<std::int64_t>());
  } else {
    fill(a, index, base, out[0].host<std::int32_t>());
  }
}

bool linear_index_gpu(const OpCall& call, std::span<Tensor> out) {
  const auto a = call.as<LinearIndexAttrs>();
  if (out[0].numel() == 0) return true;
  const Tensor index = call.in[0].contiguous(), base = call.in[1].defined() ? call.in[1].contiguous() : Tensor();
  std::array<std::uint32_t, 8> sizes = {}, strides = {};
  int rank = 0;  // 0 if no coordinate counts
  for (int d = 0; d < index.dim(); ++d) {
    sizes[static_cast<std::size_t>(d)] = gpu::u32(index.shape()[d]);
    strides[static_cast<std::size_t>(d)] = gpu::u32(a.strides[d]);
    if (a.strides[d] != 0) rank = index.dim();
  }
  gpu::Kernel(shaders::linear_index, a.op)
      .spec(index.dtype(), rank, a.wraps)
      .write(out[0])
      .read(index)
      .read(base)
      .index_errors()
      .u32(index.numel(), a.limit, a.factor)
      .u32(sizes)
      .u32(strides)
      .dispatch(gpu::grid(index.numel(), 1024));
  return true;
}

const OpDef kLinearIndex = {
    .name = "linear_index", .infer = linear_index_infer, .cpu = linear_index_cpu, .gpu = linear_index_gpu};

}  // namespace

Tensor linear_index(const Tensor& index, const Tensor& base, const LinearIndexAttrs& coordinates) {
  return apply1(kLinearIndex, {index, base}, Attrs::of(coordinates));
}

Tensor numbers(std::int64_t count, Device device) {
  // Only the coordinate of the element counts.
  return linear_index(zeros({count}, {i32, device}), {}, {"numbers", 1, 0, false, count > 0x7fffffff, Strides{1}});
}

Tensor places_along(const char* op, const Shape& shape, std::int64_t dim, const Tensor& index, bool wraps) {
  const int d = static_cast<int>(dim);
  LinearIndexAttrs c{op, shape[d], 0, wraps, numel(shape, op) > std::int64_t{0x7fffffff}, contiguous_strides(shape)};
  c.factor = c.strides[d];
  c.strides[d] = 0;
  return linear_index(index, {}, c);
}

}  // namespace etna::indexing

namespace etna {

std::span<const OpDef* const> ops_in_linear_index() {
  static const OpDef* const list[] = {&indexing::kLinearIndex};
  return list;
}

}  // namespace etna
