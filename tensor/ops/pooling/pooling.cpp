#include <etna/tensor/ops/pooling/pooling.h>

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include <etna/tensor/ops.h>
#include <etna/tensor/ops/pooling/internal/max_pool.h>
#include <etna/tensor/ops/resample/internal/resample.h>

// The public functions. They check sizes; sums are maps of resample.h, maxima are those of max_pool.h.
namespace etna {
namespace {

using pooling::PoolAttrs;
using pooling::Window;
using resample::Planes;
using resample::ResampleAttrs;

constexpr std::int64_t kPoolingLargest = 1 << 30;  ///< kernels add two such numbers in 32 bits

/// One number for each spatial dimension. @param least the smallest one allowed
Dims one_each(const char* op, const char* what, const Dims& given, int spatial, std::int64_t least) {
  if (given.rank() != 1 && given.rank() != spatial) {
    throw ShapeError(fmt::format("{}: {} is {}; it must be one number or {}", op, what, str(given), spatial));
  }
  Dims all;
  for (int d = 0; d < spatial; ++d) {
    all.push_back(given[given.rank() == 1 ? 0 : d]);
    if (all[d] < least || all[d] > kPoolingLargest)
      throw ShapeError(fmt::format("{}: {} is {}; each number must be from {} to 2^30", op, what, str(given), least));
  }
  return all;
}

/// The windows of a pooling over x's last dimensions.
struct Pooling {
  const char* op;
  int spatial;
  Dims kernel, stride, padding, dilation;
  bool ceil_mode = false;

  Pooling(const char* name, int dims, const Dims& k, const Dims& s, const Dims& p, const Dims& d, bool ceil)
      : op(name),
        spatial(dims),
        kernel(one_each(op, "kernel_size", k, dims, 1)),
        stride(s.empty() ? kernel : one_each(op, "stride", s, dims, 1)),
        padding(one_each(op, "padding", p, dims, 0)),
        dilation(one_each(op, "dilation", d, dims, 1)),
        ceil_mode(ceil) {
    for (int i = 0; i < dims; ++i) {
      if (2 * padding[i] > kernel[i]) {
        throw ShapeError(
            fmt::format("{}: padding {} exceeds half of kernel_size {}; windows could lie outside the input", op,
                        str(padding), str(kernel)));
      }
      if (checked_product(kernel[i], dilation[i], op) > kPoolingLargest)
        throw ShapeError(
            fmt::format("{}: kernel_size {} times dilation {} exceeds 2^30", op, str(kernel), str(dilation)));
    }
  }

  PoolAttrs windows(const Planes& planes) const {
    PoolAttrs all;
    for (int i = 0; i < spatial; ++i) {
      const int d = 3 - spatial + i;
      const std::int64_t from = planes.sizes()[static_cast<std::size_t>(d)];
      const std::int64_t reach = dilation[i] * (kernel[i] - 1) + 1, room = from + 2 * padding[i] - reach;
      std::int64_t to = room < 0 && !ceil_mode ? 0 : (room + (ceil_mode ? stride[i] - 1 : 0)) / stride[i] + 1;
      if (room < 0 && ceil_mode) to = -room >= stride[i] ? 0 : 1;
      if (ceil_mode && (to - 1) * stride[i] >= from + padding[i]) --to;
      if (from < 1 || to < 1 || from > kPoolingLargest) {
        throw ShapeError(fmt::format(
            "{}: windows of {} (dilation {}) do not fit into {} elements with padding {}; the result would be empty",
            op, kernel[i], dilation[i], from, padding[i]));
      }
      // All strides beyond the padded input are equivalent.
      const auto longest = static_cast<std::int32_t>(from + 2 * padding[i] + 1);
      all.axes[d] = {static_cast<std::int32_t>(from),       static_cast<std::int32_t>(to),
                     static_cast<std::int32_t>(kernel[i]),  std::min(static_cast<std::int32_t>(stride[i]), longest),
                     static_cast<std::int32_t>(padding[i]), std::min(static_cast<std::int32_t>(dilation[i]), longest)};
    }
    return all;
  }
};

PoolAttrs adaptive_windows(const char* op, const Planes& planes, const Dims& output_size, int spatial) {
  const Dims wanted = one_each(op, "output_size", output_size, spatial, -1);
  PoolAttrs all;
  all.adaptive = true;
  for (int i = 0; i < spatial; ++i) {
    const int d = 3 - spatial + i;
    const std::int64_t from = planes.sizes()[static_cast<std::size_t>(d)], to = wanted[i] == -1 ? from : wanted[i];
    if (from < 1 || from > kPoolingLargest)
      throw ShapeError(
          fmt::format("{}: the input has {} elements along a spatial dimension, at least 1 is needed", op, from));
    all.axes[d] = {static_cast<std::int32_t>(from), static_cast<std::int32_t>(to)};
  }
  return all;
}

MaxPooled pooled(const Planes& planes, const PoolAttrs& windows, bool indices) {
  const pooling::MaxPooled y = pooling::max_pool(planes.folded(), windows);
  return {planes.unfold(y.values), indices ? planes.unfold(y.indices.to(i64)) : Tensor()};
}

MaxPooled max_pool(const char* op, const Tensor& x, int spatial, const Dims& kernel, const MaxPoolOptions& o,
                   bool indices) {
  detail::require_defined(op, x);
  const Pooling pooling(op, spatial, kernel, o.stride, o.padding, o.dilation, o.ceil_mode);
  const Planes planes(op, x, spatial);
  return pooled(planes, pooling.windows(planes), indices);
}

MaxPooled adaptive_max_pool(const char* op, const Tensor& x, int spatial, const Dims& size, bool indices) {
  detail::require_defined(op, x);
  const Planes planes(op, x, spatial);
  return pooled(planes, adaptive_windows(op, planes, size, spatial), indices);
}

Tensor max_unpool(const char* op, const Tensor& x, const Tensor& indices, int spatial, const Dims& kernel,
                  const Dims& stride, const Dims& padding, const Dims& output_size) {
  detail::require_defined(op, x, indices);
  const Pooling pooling(op, spatial, kernel, stride, padding, 1, false);
  if (indices.shape() != x.shape() || (indices.dtype() != i64 && indices.dtype() != i32)) {
    throw ShapeError(fmt::format("{}: the indices are {} {}, x is {}; they must be i64 or i32 and of x's shape", op,
                                 name(indices.dtype()), str(indices.shape()), str(x.shape())));
  }
  const Planes planes(op, x, spatial);
  if (!output_size.empty() && output_size.rank() != spatial)
    throw ShapeError(fmt::format("{}: output_size is {}; it must be {} numbers", op, str(output_size), spatial));
  PoolAttrs windows;
  windows.unpool = true;
  for (int i = 0; i < spatial; ++i) {
    const int d = 3 - spatial + i;
    const std::int64_t to = planes.sizes()[static_cast<std::size_t>(d)];
    const std::int64_t least =
        checked_sum(checked_product(to - 1, pooling.stride[i], op), pooling.kernel[i] - 2 * pooling.padding[i], op);
    const std::int64_t from = output_size.empty() ? least : output_size[i];
    if (to < 1 || from < 1 || from > kPoolingLargest || std::abs(from - least) >= pooling.stride[i] + (from == least)) {
      throw ShapeError(fmt::format("{}: output_size {} does not match {}; dimension {} must be within {} ± {}", op,
                                   str(output_size), str(x.shape()), d, least, pooling.stride[i] - 1));
    }
    windows.axes[d] = {static_cast<std::int32_t>(from),
                       static_cast<std::int32_t>(to),
                       static_cast<std::int32_t>(pooling.kernel[i]),
                       static_cast<std::int32_t>(pooling.stride[i]),
                       static_cast<std::int32_t>(pooling.padding[i]),
                       1};
  }
  return planes.unfold(pooling::max_pool_back(planes.folded(), planes.fold(indices).to(i32), windows));
}

ResampleAttrs map_of(const PoolAttrs& windows) {
  ResampleAttrs map;
  map.kind = windows.adaptive ? resample::Kind::adaptive : resample::Kind::window;
  for (int d = 0; d < 3; ++d) {
    const Window& w = windows.axes[d];
    map.axes[d] = {w.from, w.to, w.kernel, w.stride, w.padding};
  }
  return map;
}

Tensor avg_pool(const char* op, const Tensor& x, int spatial, const Dims& kernel, const Dims& stride,
                const Dims& padding, bool ceil_mode, bool count_include_pad, std::optional<std::int64_t> divisor) {
  detail::require_defined(op, x);
  const Pooling pooling(op, spatial, kernel, stride, padding, 1, ceil_mode);
  if (divisor && *divisor == 0) throw ShapeError(fmt::format("{}: divisor_override is 0", op));
  const Planes planes(op, x, spatial);
  ResampleAttrs map = map_of(pooling.windows(planes));
  map.divisor = divisor             ? resample::Divisor::none
                : count_include_pad ? resample::Divisor::with_padding
                                    : resample::Divisor::elements;
  if (divisor) map.factor = 1 / static_cast<double>(*divisor);
  return planes.unfold(resample::apply_map(planes.folded(), map));
}

Tensor adaptive_avg_pool(const char* op, const Tensor& x, int spatial, const Dims& size) {
  detail::require_defined(op, x);
  const Planes planes(op, x, spatial);
  const PoolAttrs windows = adaptive_windows(op, planes, size, spatial);
  bool whole = true;
  for (const Window& w : windows.axes) whole = whole && w.to == 1;
  if (!whole) return planes.unfold(resample::apply_map(planes.folded(), map_of(windows)));
  // One mean over the whole input: the reduction divides it among many threads.
  if (!is_floating(x.dtype())) {
    throw DtypeError(fmt::format("{}: the input is {}, it must be floating; convert it first, e.g. with .to(f32)", op,
                                 name(x.dtype())));
  }
  return planes.unfold(mean(planes.folded(), {1, 2, 3}, true).to(x.dtype()));
}

/// The p-th root of the sum of p-th powers in each window.
Tensor lp_pool(const char* op, const Tensor& x, int spatial, double p, const Dims& kernel, const Dims& stride,
               bool ceil_mode) {
  detail::require_defined(op, x);
  const Pooling pooling(op, spatial, kernel, stride, 0, 1, ceil_mode);
  if (!(p > 0)) throw ShapeError(fmt::format("{}: norm_type is {}, it must be positive", op, p));
  const Tensor powers = p == 1 ? x : p == 2 ? square(x) : pow(x, p);
  // A window that ends beyond the input still divides by its full size: the mean is scaled up.
  const Tensor means = avg_pool(op, powers, spatial, kernel, stride, 0, ceil_mode, true, {});
  double count = 1;
  for (std::int64_t k : pooling.kernel) count *= static_cast<double>(k);
  const Tensor sums = sign(means) * relu(abs(means)) * count;
  return p == 1 ? sums : pow(sums, 1 / p);
}

}  // namespace

#define ETNA_POOLING(DIMS)                                                                                           \
  Tensor max_pool##DIMS##d(const Tensor& x, Dims kernel_size, Dims stride, Dims padding, Dims dilation, bool ceil) { \
    return max_pool("max_pool" #DIMS "d", x, DIMS, kernel_size, {stride, padding, dilation, ceil}, false).values;    \
  }                                                                                                                  \
  MaxPooled max_pool##DIMS##d_with_indices(const Tensor& x, Dims kernel_size, const MaxPoolOptions& options) {       \
    return max_pool("max_pool" #DIMS "d", x, DIMS, kernel_size, options, true);                                      \
  }                                                                                                                  \
  Tensor max_unpool##DIMS##d(const Tensor& x, const Tensor& indices, Dims kernel_size, Dims stride, Dims padding,    \
                             Dims output_size) {                                                                     \
    return max_unpool("max_unpool" #DIMS "d", x, indices, DIMS, kernel_size, stride, padding, output_size);          \
  }                                                                                                                  \
  Tensor adaptive_avg_pool##DIMS##d(const Tensor& x, Dims output_size) {                                             \
    return adaptive_avg_pool("adaptive_avg_pool" #DIMS "d", x, DIMS, output_size);                                   \
  }                                                                                                                  \
  Tensor adaptive_max_pool##DIMS##d(const Tensor& x, Dims output_size) {                                             \
    return adaptive_max_pool("adaptive_max_pool" #DIMS "d", x, DIMS, output_size, false).values;                     \
  }                                                                                                                  \
  MaxPooled adaptive_max_pool##DIMS##d_with_indices(const Tensor& x, Dims output_size) {                             \
    return adaptive_max_pool("adaptive_max_pool" #DIMS "d", x, DIMS, output_size, true);                             \
  }                                                                                                                  \
  Tensor lp_pool##DIMS##d(const Tensor& x, double norm_type, Dims kernel_size, Dims stride, bool ceil_mode) {        \
    return lp_pool("lp_pool" #DIMS "d", x, DIMS, norm_type, kernel_size, stride, ceil_mode);                         \
  }
ETNA_POOLING(1)
ETNA_POOLING(2)
ETNA_POOLING(3)
#undef ETNA_POOLING

Tensor avg_pool1d(const Tensor& x, Dims kernel_size, Dims stride, Dims padding, bool ceil_mode,
                  bool count_include_pad) {
  return avg_pool("avg_pool1d", x, 1, kernel_size, stride, padding, ceil_mode, count_include_pad, {});
}
Tensor avg_pool2d(const Tensor& x, Dims kernel_size, Dims stride, Dims padding, bool ceil_mode, bool count_include_pad,
                  std::optional<std::int64_t> divisor_override) {
  return avg_pool("avg_pool2d", x, 2, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override);
}
Tensor avg_pool3d(const Tensor& x, Dims kernel_size, Dims stride, Dims padding, bool ceil_mode, bool count_include_pad,
                  std::optional<std::int64_t> divisor_override) {
  return avg_pool("avg_pool3d", x, 3, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override);
}

}  // namespace etna
