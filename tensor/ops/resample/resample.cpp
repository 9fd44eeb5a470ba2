#include <etna/tensor/ops/resample/internal/resample.h>

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include <etna/shaders/shaders.h>
#include <etna/tensor/ops/kernel.h>

namespace etna {
namespace {

using resample::Axis;
using ResampleKind = resample::Kind;
using resample::ResampleAttrs;

std::vector<OutputSpec> resample_infer(const OpCall& call) {
  const Tensor& x = call.in[0];
  const auto map = call.as<ResampleAttrs>();
  if (!is_floating(x.dtype())) {
    throw DtypeError(fmt::format("{}: the input is {}, it must be floating; convert it first, e.g. with .to(f32)",
                                 call.op.name, name(x.dtype())));
  }
  bool fits = x.dim() == 5;
  Shape shape = x.shape();
  for (int d = 0; fits && d < 3; ++d) {
    fits = shape[d + 1] == map.taken(d);
    shape[d + 1] = map.given(d);
  }
  if (!fits) {
    throw ShapeError(fmt::format("{}: the input {} is not [outer, {}, {}, {}, inner]", call.op.name, str(x.shape()),
                                 map.taken(0), map.taken(1), map.taken(2)));
  }
  return {{shape, x.dtype()}};
}

TensorList resample_vjp(const VjpCall& call) {
  auto map = call.as<ResampleAttrs>();
  map.transposed = !map.transposed;
  return {resample::apply_map(call.grad[0], map)};
}

const OpDef kResample = {.name = "resample",
                         .infer = resample_infer,
                         .cpu = resample::map_cpu,
                         .gpu = resample::map_gpu,
                         .vjp = resample_vjp};

/// The most elements that one result may read along an axis.
std::int64_t most_taps(const ResampleAttrs& map, const Axis& a) {
  const std::int64_t from = a.from, to = a.to;
  switch (map.kind) {
    case ResampleKind::window:
      return map.transposed ? a.kernel / a.stride + 1 : a.kernel;
    case ResampleKind::adaptive:
      return map.transposed ? to / from + 2 : from / to + 2;
    case ResampleKind::replicate:
      return map.transposed ? to : 1;
    case ResampleKind::reflect:
    case ResampleKind::circular:
      return 3;
    default:  // four results for each element on either side, plus rounding; each weighs at most four elements
      return !map.transposed
                 ? 4
                 : 5 * (a.scale * static_cast<double>(to) > 8 ? std::min(to, 5 + static_cast<std::int64_t>(4 / a.scale))
                                                              : to);
  }
}

}  // namespace

namespace resample {

Tensor apply_map(const Tensor& x, const ResampleAttrs& map) { return apply1(kResample, {x}, Attrs::of(map)); }

bool map_gpu(const OpCall& call, std::span<Tensor> out) {
  const auto map = call.as<ResampleAttrs>();
  Tensor& y = out[0];
  if (y.dtype() == f64) return false;
  if (y.numel() == 0) return true;
  if (call.in[0].numel() == 0) return y.zero_(), true;
  std::int64_t steps = 1;
  int first = 2;
  for (int d = 0; d < 3; ++d) {
    const Axis& a = map.axes[d];
    // Positions times sizes are computed in 32 bits.
    if (map.kind == ResampleKind::adaptive && (a.from + 1ll) * (a.to + 1ll) > std::numeric_limits<std::int32_t>::max())
      return false;
    steps *= most_taps(map, a);
    if (first == 2 && (a.from != 1 || a.to != 1)) first = d;
  }
  const std::uint32_t most = gpu::capabilities(y.device()).most_iterations;
  if (most != 0 && steps > most) return false;
  gpu::Kernel kernel(shaders::resample, call);
  kernel.spec(map.kind, map.align_corners, map.transposed, y.dtype(), map.divisor, first)
      .read(call.in[0].contiguous())
      .write(y)
      .u32(y.numel(), y.shape()[4])
      .f32(static_cast<float>(map.factor));
  for (const Axis& a : map.axes)
    kernel.u32(a.from, a.to, a.kernel, a.stride, a.padding).f32(static_cast<float>(a.scale));
  kernel.dispatch(gpu::grid(y.numel(), 256));
  return true;
}

}  // namespace resample

std::span<const OpDef* const> ops_in_resample() {
  static const OpDef* const list[] = {&kResample};
  return list;
}

}  // namespace etna
