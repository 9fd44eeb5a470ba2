#include <array>

#include <fmt/format.h>

#include <etna/device/internal/cpu/parallel.h>
#include <etna/shaders/shaders.h>
#include <etna/tensor/op.h>
#include <etna/tensor/ops/kernel.h>
#include <etna/tensor/ops/rearrange/rearrange.h>
#include <etna/tensor/ops/rows/internal/rows.h>

// flip: a copy through negative strides, which tensors themselves cannot have.
namespace etna {
namespace {

struct FlipAttrs {
  Dims dims;  ///< at least one
};

std::vector<OutputSpec> flip_infer(const OpCall& call) { return {{call.in[0].shape(), call.in[0].dtype()}}; }

/// x's strides with signs, and the offset of the first element of the result.
struct Reversed {
  Strides strides;
  std::int64_t offset = 0;
  Reversed(const Tensor& x, const Dims& dims) : strides(x.strides()) {
    for (std::int64_t d : dims) {
      const int i = static_cast<int>(d);
      offset += (x.shape()[i] - 1) * strides[i];
      strides[i] = -strides[i];
    }
  }
};

void flip_cpu(const OpCall& call, std::span<Tensor> out) {
  const Tensor& x = call.in[0];
  if (x.numel() == 0) return;
  const Reversed from(x, call.as<FlipAttrs>().dims);
  Shape others = x.shape();
  Strides strides = from.strides;
  const std::int64_t n = others.back(), step = strides.back();
  others.erase(others.rank() - 1), strides.erase(strides.rank() - 1);
  visit(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* source = x.host<T>() + from.offset;
    T* to = out[0].host<T>();
    cpu::parallel_for(x.numel() / n, std::max<std::int64_t>(1, rows::kGrain / n), [&](auto begin, auto end) {
      for (std::int64_t r = begin; r < end; ++r) {
        const T* row = source + rows::offset_of(others, strides, r);
        for (std::int64_t i = 0; i < n; ++i) to[r * n + i] = row[i * step];
      }
    });
  });
}

bool flip_gpu(const OpCall& call, std::span<Tensor> out) {
  const Tensor& x = call.in[0];
  if (x.numel() == 0) return true;
  const Reversed from(x, call.as<FlipAttrs>().dims);
  std::array<std::uint32_t, kMaxRank> sizes = {}, strides = {};
  for (int d = 0; d < x.dim(); ++d) {
    sizes[static_cast<std::size_t>(d)] = gpu::u32(x.shape()[d]);
    strides[static_cast<std::size_t>(d)] = gpu::u32(from.strides[d]);
  }
  gpu::Kernel(shaders::flip, call)
      .spec(item_size(x.dtype()), x.dim())
      .read(x)
      .write(out[0])
      .u32(x.numel(), from.offset)
      .u32(sizes)
      .u32(strides)
      .dispatch(gpu::grid(x.numel(), 1024));
  return true;
}

TensorList flip_vjp(const VjpCall& call) { return {flip(call.grad[0], call.as<FlipAttrs>().dims)}; }

const OpDef kFlip = {.name = "flip", .infer = flip_infer, .cpu = flip_cpu, .gpu = flip_gpu, .vjp = flip_vjp};

}  // namespace

Tensor flip(const Tensor& x, Dims dims) {
  detail::require_defined("flip", x);
  if (dims.empty() || x.dim() == 0) {
    for (std::int64_t d : dims) wrap_dim(d, x.dim(), "flip");
    return x.clone();
  }
  return apply1(kFlip, {x}, Attrs::of(FlipAttrs{wrap_dims(dims, x.dim(), "flip")}));
}

std::span<const OpDef* const> ops_in_flip() {
  static const OpDef* const list[] = {&kFlip};
  return list;
}

}  // namespace etna
