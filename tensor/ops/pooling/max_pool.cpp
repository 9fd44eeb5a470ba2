#include <etna/tensor/ops/pooling/internal/max_pool.h>

#include <limits>

#include <fmt/format.h>

#include <etna/shaders/shaders.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/kernel.h>

// The forward pass also returns the position of each maximum. The gradient needs neither x nor the maxima: for each
// element it adds up the windows that contain it and point to it. That is a gather, so the bits do not vary.
namespace etna {
namespace {

using pooling::PoolAttrs;
using pooling::Window;

std::vector<OutputSpec> max_pool_infer(const OpCall& call) {
  const Tensor& x = call.in[0];
  const auto windows = call.as<PoolAttrs>();
  if (!is_floating(x.dtype())) {
    throw DtypeError(fmt::format("max_pool: the input is {}, it must be floating; convert it first, e.g. with .to(f32)",
                                 name(x.dtype())));
  }
  Shape shape = x.shape();
  bool fits = x.dim() == 5;
  std::int64_t plane = 1;
  for (int d = 0; fits && d < 3; ++d) {
    fits = shape[d + 1] == windows.axes[d].from;
    plane = checked_product(plane, shape[d + 1], "max_pool");
    shape[d + 1] = windows.axes[d].to;
  }
  if (!fits || plane > std::numeric_limits<std::int32_t>::max())
    throw ShapeError(fmt::format("max_pool: {} does not match these windows", str(x.shape())));
  return {{shape, x.dtype()}, {shape, i32}};
}

std::vector<OutputSpec> max_pool_backward_infer(const OpCall& call) {
  const Tensor &g = call.in[0], &indices = call.in[1];
  const auto windows = call.as<PoolAttrs>();
  Shape shape = g.shape();
  bool fits = g.dim() == 5 && g.shape() == indices.shape() && indices.dtype() == i32;
  for (int d = 0; fits && d < 3; ++d) {
    fits = shape[d + 1] == windows.axes[d].to;
    shape[d + 1] = windows.axes[d].from;
  }
  if (!fits) {
    throw ShapeError(fmt::format("{}: values {} do not match indices {} and these windows", call.op.name,
                                 str(g.shape()), str(indices.shape())));
  }
  if (!is_floating(g.dtype())) {
    throw DtypeError(fmt::format("{}: the values are {}, they must be floating", call.op.name, name(g.dtype())));
  }
  return {{shape, g.dtype()}};
}

/// False if a thread would exceed the device's limit of loop iterations, or positions overflow.
bool countable(const PoolAttrs& windows, Device device, bool back) {
  std::int64_t steps = 1;
  for (const Window& w : windows.axes) {
    if (windows.adaptive && (w.from + 1ll) * (w.to + 1ll) > std::numeric_limits<std::int32_t>::max()) return false;
    steps *= windows.adaptive ? (back ? w.to / w.from : w.from / w.to) + 2
             : back           ? (w.kernel - 1ll) * w.dilation / w.stride + 1
                              : w.kernel;
  }
  const std::uint32_t most = gpu::capabilities(device).most_iterations;
  return most == 0 || steps <= most;
}

/// @param inner elements side by side that share their windows
gpu::Kernel kernel_of(const gpu::Shader& shader, const OpCall& call, DType t, std::int64_t inner) {
  const auto windows = call.as<PoolAttrs>();
  gpu::Kernel kernel(shader, call);
  kernel.spec(t, windows.adaptive, windows.unpool, inner == 1);
  for (const Window& w : windows.axes) {
    if (windows.adaptive)
      kernel.spec(1, 1, 0, 1);
    else
      kernel.spec(w.kernel, w.stride, w.padding, w.dilation);
  }
  return kernel;
}
void dispatch(gpu::Kernel& kernel, const PoolAttrs& windows, std::int64_t count, std::int64_t inner) {
  kernel.u32(count, inner);
  for (const Window& w : windows.axes) kernel.u32(w.from, w.to);
  kernel.dispatch(gpu::grid(count, 256));
}

bool max_pool_gpu(const OpCall& call, std::span<Tensor> out) {
  const auto windows = call.as<PoolAttrs>();
  const Tensor &y = out[0], x = call.in[0];
  if (y.dtype() == f64 || !countable(windows, y.device(), false)) return false;
  if (y.numel() == 0) return true;
  gpu::Kernel kernel = kernel_of(shaders::max_pool, call, y.dtype(), y.shape()[4]);
  dispatch(kernel.read(x.contiguous()).write(y).write(out[1]), windows, y.numel(), y.shape()[4]);
  return true;
}

bool max_pool_backward_gpu(const OpCall& call, std::span<Tensor> out) {
  const auto windows = call.as<PoolAttrs>();
  Tensor& y = out[0];
  if (y.dtype() == f64 || !countable(windows, y.device(), true)) return false;
  if (y.numel() == 0) return true;
  if (call.in[0].numel() == 0) return y.zero_(), true;
  gpu::Kernel kernel = kernel_of(shaders::max_pool_back, call, y.dtype(), y.shape()[4]);
  dispatch(kernel.read(call.in[0].contiguous()).write(y).read(call.in[1].contiguous()), windows, y.numel(),
           y.shape()[4]);
  return true;
}

/// The elements of g at the indices: the derivative of max_pool_back.
Tensor taken_at(const Tensor& g, const Tensor& indices) {
  const Shape &s = g.shape(), &to = indices.shape();
  const Tensor flat = g.reshape({s[0], s[1] * s[2] * s[3], s[4]});
  return gather(flat, 1, indices.reshape({to[0], to[1] * to[2] * to[3], to[4]})).reshape(to);
}

TensorList max_pool_vjp(const VjpCall& call) {
  if (!call.grad[0].defined()) return {Tensor()};
  return {pooling::max_pool_back(call.grad[0], detail::alias(call.out[1]), call.as<PoolAttrs>())};
}
TensorList max_pool_backward_vjp(const VjpCall& call) {
  return {call.needs[0] ? taken_at(call.grad[0], call.in[1]) : Tensor(), Tensor()};
}

const OpDef kMaxPool = {.name = "max_pool",
                        .infer = max_pool_infer,
                        .cpu = pooling::max_pool_cpu,
                        .gpu = max_pool_gpu,
                        .vjp = max_pool_vjp,
                        .saved = Saved::outputs,
                        .saved_outputs = 0b10};
const OpDef kMaxPoolBackward = {.name = "max_pool_backward",
                                .infer = max_pool_backward_infer,
                                .cpu = pooling::max_pool_back_cpu,
                                .gpu = max_pool_backward_gpu,
                                .vjp = max_pool_backward_vjp,
                                .saved = Saved::inputs,
                                .saved_inputs = 0b10};

}  // namespace

pooling::MaxPooled pooling::max_pool(const Tensor& x, const PoolAttrs& windows) {
  TensorList out = apply(kMaxPool, {x}, Attrs::of(windows));
  return {out[0], out[1].detach()};
}
Tensor pooling::max_pool_back(const Tensor& values, const Tensor& indices, const PoolAttrs& windows) {
  return apply1(kMaxPoolBackward, {values, indices}, Attrs::of(windows));
}

std::span<const OpDef* const> ops_in_max_pool() {
  static const OpDef* const list[] = {&kMaxPool, &kMaxPoolBackward};
  return list;
}

}  // namespace etna
