#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include <etna/device/internal/cpu/parallel.h>
#include <etna/shaders/shaders.h>
#include <etna/tensor/op.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/indexing/internal/rows.h>
#include <etna/tensor/ops/kernel.h>

// Concatenation. The result is a matrix in which each row is the tensors' rows side by side. Elements are copied as
// bytes.
namespace etna {
namespace {

struct CatAttrs {
  int dim;
};

std::vector<OutputSpec> cat_infer(const OpCall& call) {
  int dim = call.as<CatAttrs>().dim;
  Shape shape = call.in[0].shape();
  DType dtype = call.in[0].dtype();
  for (std::size_t k = 1; k < call.in.size(); ++k) {
    const Tensor& x = call.in[k];
    Shape fitting = x.shape();
    if (fitting.rank() == shape.rank()) fitting[dim] = shape[dim];
    if (fitting != shape) {
      throw ShapeError(fmt::format("cat: tensor {} is {}; it must equal the first, {}, except in dimension {}", k,
                                   str(x.shape()), str(call.in[0].shape()), dim));
    }
    if (__builtin_add_overflow(shape[dim], x.shape()[dim], &shape[dim]))
      throw ShapeError("cat: the tensors together are too large");
    dtype = promote(dtype, x.dtype());
  }
  return {{shape, dtype}};
}

/// The nonempty tensors, contiguous and in the result's dtype, and the bytes of one row of each.
struct Parts {
  TensorList tensors;
  std::vector<std::uint64_t> widths;
  std::int64_t outer = 1;
  std::uint64_t width = 0;  ///< bytes of a row of the result
};

Parts parts_of(const OpCall& call, const Tensor& y) {
  int dim = call.as<CatAttrs>().dim;
  Parts parts;
  std::uint64_t inner = item_size(y.dtype());
  for (int d = 0; d < y.dim(); ++d) {
    if (d < dim) parts.outer *= y.shape()[d];
    if (d > dim) inner *= static_cast<std::uint64_t>(y.shape()[d]);
  }
  parts.width = inner * static_cast<std::uint64_t>(y.shape()[dim]);
  for (const Tensor& x : call.in) {
    if (x.numel() == 0) continue;
    parts.tensors.push_back(x.to(y.dtype()).contiguous());
    parts.widths.push_back(inner * static_cast<std::uint64_t>(x.shape()[dim]));
  }
  return parts;
}

void cat_cpu(const OpCall& call, std::span<Tensor> out) {
  if (out[0].numel() == 0) return;
  Parts parts = parts_of(call, out[0]);
  auto* to = static_cast<std::byte*>(out[0].raw_host());
  for (std::size_t k = 0; k < parts.tensors.size(); ++k) {
    const auto* from = static_cast<const std::byte*>(parts.tensors[k].raw_data());
    std::uint64_t width = parts.widths[k];
    // A single long row is split into chunks as well.
    auto chunk_bytes = static_cast<std::uint64_t>(parts.outer == 1 ? std::min<std::uint64_t>(width, 1 << 16) : width);
    auto chunks = static_cast<std::int64_t>((width + chunk_bytes - 1) / chunk_bytes) * parts.outer;
    std::int64_t grain = std::max<std::int64_t>(1, (1 << 16) / static_cast<std::int64_t>(chunk_bytes));
    cpu::parallel_for(chunks, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        auto at = static_cast<std::uint64_t>(i);
        if (parts.outer == 1)
          std::memcpy(to + at * chunk_bytes, from + at * chunk_bytes, std::min(chunk_bytes, width - at * chunk_bytes));
        else
          std::memcpy(to + at * parts.width, from + at * width, width);
      }
    });
    to += width;
  }
}

bool cat_gpu(const OpCall& call, std::span<Tensor> out) {
  const Tensor& y = out[0];
  if (y.numel() == 0) return true;
  Parts parts = parts_of(call, y);
  std::uint64_t begin = 0;
  for (std::size_t first = 0; first < parts.tensors.size(); first += 8) {
    std::size_t count = std::min<std::size_t>(8, parts.tensors.size() - first);
    std::uint32_t unit = indexing::unit({y.address(), begin, parts.width});
    for (std::size_t k = first; k < first + count; ++k)
      unit = indexing::unit({unit, parts.widths[k], parts.tensors[k].address()});
    std::uint64_t end = 0;  // bytes of a row of these tensors
    std::array<std::uint32_t, 8> ends = {};
    for (std::size_t k = 0; k < count; ++k) {
      end += parts.widths[first + k];
      ends[k] = gpu::u32(static_cast<std::int64_t>(end / unit));
    }
    const auto rows = static_cast<std::uint64_t>(parts.outer);
    const auto n = static_cast<std::int64_t>(end * rows / unit);
    gpu::Kernel kernel(shaders::cat, call);
    kernel.spec(unit, count).on(y.device());
    const std::uint64_t to = y.address() + begin;
    kernel.write(Pointer{to, {to, (rows - 1) * parts.width + end}});
    for (std::size_t k = 0; k < ends.size(); ++k) kernel.read(k < count ? parts.tensors[first + k] : Tensor());
    kernel.u32(ends).u32(n, parts.width / unit).dispatch(gpu::grid(n, 1024));
    begin += end;
  }
  return true;
}

TensorList cat_vjp(const VjpCall& call) {
  int dim = call.as<CatAttrs>().dim;
  TensorList grads(call.in.size());
  std::int64_t begin = 0;
  for (std::size_t k = 0; k < call.in.size(); ++k) {
    std::int64_t end = begin + call.in[k].shape()[dim];
    if (call.needs[k]) grads[k] = call.grad[0].slice(dim, begin, end).to(call.in[k].dtype());
    begin = end;
  }
  return grads;
}

const OpDef kCat = {.name = "cat", .infer = cat_infer, .cpu = cat_cpu, .gpu = cat_gpu, .vjp = cat_vjp};

}  // namespace

Tensor cat(const std::vector<Tensor>& tensors, std::int64_t dim) {
  if (tensors.empty()) throw ShapeError("cat: got no tensors; wanted at least one");
  if (tensors[0].dim() == 0) throw ShapeError("cat: a tensor without dimensions cannot be joined; use stack");
  return apply(kCat, tensors, Attrs::of(CatAttrs{wrap_dim(dim, tensors[0].dim(), "cat")}))[0];
}

Tensor stack(const std::vector<Tensor>& tensors, std::int64_t dim) {
  if (tensors.empty()) throw ShapeError("stack: got no tensors; wanted at least one");
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (!tensors[i].defined()) throw UndefinedTensor("stack", i + 1);
  }
  int at = wrap_dim(dim, tensors[0].dim() + 1, "stack");
  TensorList wider;
  for (std::size_t k = 0; k < tensors.size(); ++k) {
    if (tensors[k].shape() != tensors[0].shape()) {
      throw ShapeError(fmt::format("stack: tensor {} is {}, the first is {}; they must have one shape", k,
                                   str(tensors[k].shape()), str(tensors[0].shape())));
    }
    wider.push_back(tensors[k].unsqueeze(at));
  }
  return cat(wider, at);
}

std::span<const OpDef* const> ops_in_join() {
  static const OpDef* const list[] = {&kCat};
  return list;
}

}  // namespace etna
