#include <cmath>

#include <fmt/format.h>

#include <etna/tensor/capture.h>
#include <etna/tensor/op.h>
#include <etna/tensor/ops.h>

// Tensors made of numbers.
namespace etna {
namespace {

TensorOptions like(const char* op, const Tensor& x) {
  detail::require_defined(op, x);
  return {x.dtype(), x.device()};
}

/// Uploads numbers; integers are truncated. A step that is being captured uploads a copy at every replay, since the
/// caller may change the tensor in place.
Tensor uploaded(const char* op, const std::vector<double>& values, TensorOptions options) {
  for (std::size_t i : {std::size_t{0}, values.size() - 1}) {
    if (values.empty()) break;
    detail::number_held(op, options.dtype, is_floating(options.dtype) ? values[i] : std::trunc(values[i]));
  }
  Tensor x;
  {
    NotCaptured now;
    x = from_vector(values).to(options.dtype).to(options.device);
  }
  return capturing() ? copy(x) : x;
}

/// Computed from both ends toward the middle, so that both ends are exact.
std::vector<double> spaced(const char* op, double begin, double end, std::int64_t steps) {
  if (steps < 0) throw ShapeError(fmt::format("{}: {} steps; the number of steps must not be negative", op, steps));
  std::vector<double> values(static_cast<std::size_t>(steps), begin);
  const double step = steps > 1 ? (end - begin) / static_cast<double>(steps - 1) : 0;
  for (std::int64_t i = 0; i < steps && steps > 1; ++i) {
    values[static_cast<std::size_t>(i)] =
        i < steps / 2 ? begin + step * static_cast<double>(i) : end - step * static_cast<double>(steps - 1 - i);
  }
  return values;
}

}  // namespace

Tensor full_like(const Tensor& x, double value) {
  const TensorOptions options = like("full_like", x);
  return full(x.shape(), detail::number_held("full_like", options.dtype, value), options);
}
Tensor rand_like(const Tensor& x) { return rand(x.shape(), like("rand_like", x)); }
Tensor randn_like(const Tensor& x) { return randn(x.shape(), like("randn_like", x)); }
Tensor randint_like(const Tensor& x, std::int64_t low, std::int64_t high) {
  return randint(low, high, x.shape(), like("randint_like", x));
}

Tensor linspace(double begin, double end, std::int64_t steps, TensorOptions options) {
  return uploaded("linspace", spaced("linspace", begin, end, steps), options);
}
Tensor logspace(double begin, double end, std::int64_t steps, double base, TensorOptions options) {
  std::vector<double> values = spaced("logspace", begin, end, steps);
  for (double& x : values) x = std::pow(base, x);
  return uploaded("logspace", values, options);
}

Tensor eye(std::int64_t rows, std::optional<std::int64_t> columns, TensorOptions options) {
  const std::int64_t width = columns.value_or(rows);
  if (rows < 0 || width < 0 || rows > 0x7fffffff || width > 0x7fffffff) {
    throw ShapeError(fmt::format("eye: {} rows and {} columns; both must lie in [0, 2^31)", rows, width));
  }
  const TensorOptions indices = {i32, options.device};
  return cast(eq(arange(rows, indices).unsqueeze(1), arange(width, indices)), options.dtype);
}

}  // namespace etna
