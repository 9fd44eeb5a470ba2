#include "snake.h"

#include <cmath>

#include <etna/tensor/op.h>
#include <etna/tensor/ops/kernel.h>
#include <snake.comp.h>

// An op with kernels of its own. apply() does the rest: it checks, allocates, falls back where there is no kernel,
// records the op for backward() and lets captured steps replay it.
namespace {

using namespace etna;

/// The one place that checks shapes and dtypes. Returns the shape and dtype of each output.
std::vector<OutputSpec> snake_infer(const OpCall& call) {
  const Tensor &x = call.in[0], &alpha = call.in[1];
  if (x.dim() == 0 || alpha.dim() != 1 || alpha.size(0) != x.size(-1))
    throw ShapeError("snake: got x " + str(x.shape()) + " and alpha " + str(alpha.shape()) +
                     "; wanted [..., C] and [C]");
  if (x.dtype() != f32 || alpha.dtype() != f32) throw DtypeError("snake: x and alpha must be f32; call .to(f32) first");
  return {{x.shape(), f32}};
}

void snake_cpu(const OpCall& call, std::span<Tensor> out) {
  const Tensor x = call.in[0].contiguous(), alpha = call.in[1].contiguous();
  const float *from = x.data<float>(), *a = alpha.data<float>();
  float* to = out[0].mutable_data<float>();
  const std::int64_t columns = x.size(-1);
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    const float sine = std::sin(a[i % columns] * from[i]);
    to[i] = from[i] + sine * sine / a[i % columns];
  }
}

/// The arguments follow in the order in which the shader declares them.
bool snake_gpu(const OpCall& call, std::span<Tensor> out) {
  if (out[0].numel() == 0) return true;
  const Tensor x = call.in[0].contiguous(), alpha = call.in[1].contiguous();
  gpu::Kernel(shaders::snake, call)
      .read(x)
      .read(alpha)
      .write(out[0])
      .u32(x.numel(), x.size(-1))
      .dispatch(gpu::grid(x.numel(), 256));
  return true;
}

/// The same of public ops: what tests compare the kernels with, and what runs on a device without a kernel. Autograd
/// differentiates it, unless the op has a `vjp`.
TensorList snake_reference(const OpCall& call) {
  const Tensor &x = call.in[0], &alpha = call.in[1];
  return {x + square(sin(alpha * x)) / alpha};
}

/// d/dx = 1 + sin(2αx), d/dα = (αx · sin(2αx) − sin²(αx)) / α². Written in public ops, so it runs on every device and
/// can be differentiated again.
TensorList snake_vjp(const VjpCall& call) {
  const Tensor &x = call.in[0], &alpha = call.in[1], &g = call.grad[0];
  const Tensor ax = alpha * x, slope = sin(ax * 2.0);
  TensorList gradients(2);
  if (call.needs[0]) gradients[0] = g * (slope + 1.0);
  if (call.needs[1]) gradients[1] = sum_to(g * (ax * slope - square(sin(ax))) / square(alpha), alpha.shape());
  return gradients;
}

const OpDef kSnake = {.name = "snake",
                      .infer = snake_infer,
                      .cpu = snake_cpu,
                      .gpu = snake_gpu,
                      .reference = snake_reference,
                      .vjp = snake_vjp,
                      .saved = Saved::inputs};

}  // namespace

etna::Tensor snake(const etna::Tensor& x, const etna::Tensor& alpha) { return etna::apply1(kSnake, {x, alpha}); }
