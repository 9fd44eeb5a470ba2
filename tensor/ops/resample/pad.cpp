#include <algorithm>

#include <fmt/format.h>

#include <etna/tensor/ops.h>
#include <etna/tensor/ops/resample/internal/resample.h>
#include <etna/tensor/ops/resample/resample.h>

namespace etna {
namespace {

struct PadAttrs {
  Dims before, after;  ///< for each dimension, in order; negative numbers crop
  double value = 0;
};

/// Fills the result with the value and copies x into its place. Works for any dtype and strides.
TensorList pad_constant_direct(const OpCall& call) {
  Tensor x = call.in[0];
  const auto a = call.as<PadAttrs>();
  Shape shape = x.shape();
  for (int d = 0; d < x.dim(); ++d)
    shape[d] = checked_sum(shape[d], checked_sum(a.before[d], a.after[d], "pad"), "pad");
  Tensor y = full(shape, a.value, {x.dtype(), x.device()}), place = y;
  for (int d = 0; d < x.dim(); ++d) {
    const std::int64_t begin = std::max<std::int64_t>(0, -a.before[d]);
    const std::int64_t end = x.shape()[d] - std::max<std::int64_t>(0, -a.after[d]);
    if (begin >= end) return {y};
    x = x.slice(d, begin, end);
    place =
        place.slice(d, std::max<std::int64_t>(0, a.before[d]), std::max<std::int64_t>(0, a.before[d]) + end - begin);
  }
  place.copy_(x);
  return {y};
}

TensorList pad_constant_vjp(const VjpCall& call) {
  auto a = call.as<PadAttrs>();
  for (int d = 0; d < a.before.rank(); ++d) a.before[d] = -a.before[d], a.after[d] = -a.after[d];
  a.value = 0;
  return {apply1(call.op, {call.grad[0]}, Attrs::of(a))};
}

const OpDef kPadConstant = {.name = "pad_constant", .vjp = pad_constant_vjp, .direct = pad_constant_direct};

const char* name_of(PadMode mode) {
  return mode == PadMode::reflect ? "reflect" : mode == PadMode::replicate ? "replicate" : "circular";
}

/// Checks that x has enough elements for a mode that takes values from it.
void check_reach(const Tensor& x, const PadAttrs& a, PadMode mode) {
  for (int d = 0; d < x.dim(); ++d) {
    const std::int64_t size = x.shape()[d], most = std::max(a.before[d], a.after[d]);
    const std::int64_t limit = mode == PadMode::reflect ? size - 1 : mode == PadMode::circular ? size : 1 << 30;
    if ((most > limit || (size == 0 && most > 0)) && !(most == 0)) {
      throw ShapeError(fmt::format("pad: mode {} cannot pad dimension {} of {} by {}; at most {}", name_of(mode), d,
                                   str(x.shape()), most, std::max<std::int64_t>(0, limit)));
    }
  }
}

/// Copies the ends of each dimension to the other side. For dtypes that the map does not support.
Tensor wrapped(const Tensor& x, const PadAttrs& a) {
  Tensor y = x;
  for (int d = 0; d < x.dim(); ++d) {
    const std::int64_t n = x.shape()[d], before = a.before[d], after = a.after[d];
    std::vector<Tensor> parts;
    if (before > 0) parts.push_back(y.slice(d, n - before, n));
    parts.push_back(y.slice(d, std::max<std::int64_t>(0, -before), n - std::max<std::int64_t>(0, -after)));
    if (after > 0) parts.push_back(y.slice(d, 0, after));
    y = cat(parts, d);
  }
  return y;
}

}  // namespace

Tensor pad(const Tensor& x, const std::vector<std::int64_t>& pads, PadMode mode, double value) {
  detail::require_defined("pad", x);
  const int padded = static_cast<int>(pads.size() / 2);
  if (pads.size() % 2 != 0 || pads.size() / 2 > static_cast<std::size_t>(x.dim())) {
    throw ShapeError(fmt::format("pad: {} numbers for {}; pass two for each of the last dimensions, the last one first",
                                 pads.size(), str(x.shape())));
  }
  PadAttrs a{Dims::filled(x.dim(), 0), Dims::filled(x.dim(), 0), value};
  for (int i = 0; i < padded; ++i) {
    const int d = x.dim() - 1 - i;
    a.before[d] = pads[static_cast<std::size_t>(2 * i)], a.after[d] = pads[static_cast<std::size_t>(2 * i) + 1];
    const std::int64_t size = checked_sum(x.shape()[d], checked_sum(a.before[d], a.after[d], "pad"), "pad");
    if (size < 0 || -a.before[d] > x.shape()[d] || -a.after[d] > x.shape()[d]) {
      throw ShapeError(fmt::format("pad: {} and {} leave nothing of dimension {} of {}", a.before[d], a.after[d], d,
                                   str(x.shape())));
    }
  }
  if (mode == PadMode::constant) {
    a.value = detail::number_held("pad", x.dtype(), value);
    return apply1(kPadConstant, {x}, Attrs::of(a));
  }
  check_reach(x, a, mode);
  if (padded > 3) {
    throw ShapeError(fmt::format("pad: mode {} pads at most three dimensions, not {}; pad some of them first",
                                 name_of(mode), padded));
  }
  if (mode == PadMode::circular && !is_floating(x.dtype())) return wrapped(x, a);
  if (padded == 0) return x;
  // All spatial dimensions of [N, C, ...], so that channels that are last in memory stay last.
  const int spatial = std::max(padded, std::min(3, x.dim() - 2));
  const resample::Planes planes("pad", x, spatial);
  resample::ResampleAttrs map;
  map.kind = mode == PadMode::reflect     ? resample::Kind::reflect
             : mode == PadMode::replicate ? resample::Kind::replicate
                                          : resample::Kind::circular;
  for (int d = 0; d < spatial; ++d) {
    const int of = x.dim() - spatial + d;
    resample::Axis& axis = map.axes[3 - spatial + d];
    axis.from = static_cast<std::int32_t>(x.shape()[of]);
    axis.to = static_cast<std::int32_t>(x.shape()[of] + a.before[of] + a.after[of]);
    axis.padding = static_cast<std::int32_t>(a.before[of]);
  }
  return planes.unfold(resample::apply_map(planes.folded(), map));
}

std::span<const OpDef* const> ops_in_pad() {
  static const OpDef* const list[] = {&kPadConstant};
  return list;
}

}  // namespace etna
