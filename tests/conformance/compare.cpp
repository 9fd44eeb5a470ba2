#include <conformance/compare.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include <conformance/inputs.h>

namespace etna::conformance {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double bound_of(DType t) {
  switch (t) {
    case DType::f64:
      return 1e-11;
    case DType::f32:
      return 1e-5;
    case DType::f16:
      return 1e-3;
    case DType::bf16:
      return 8e-3;
    default:
      return 0;
  }
}

}  // namespace

double value_bound(DType run, DType result) {
  if (!is_floating(result)) return 0;
  return std::max(is_floating(run) ? bound_of(run) : 0.0, bound_of(result));
}

double gradient_bound(DType run) { return bound_of(run) * 6; }

double typical(const std::vector<double>& values) {
  double squares = 0;
  std::size_t finite = 0;
  for (double v : values) {
    if (std::isfinite(v)) squares += v * v, ++finite;
  }
  return finite > 0 ? std::sqrt(squares / static_cast<double>(finite)) : 0.0;
}

Comparison compare(const Tensor& got, const std::vector<double>& wanted, double smallest) {
  std::vector<double> values = read(got);
  if (values.size() != wanted.size())
    return {kInfinity, fmt::format("{} elements, wanted {}", values.size(), wanted.size())};
  double usual = std::max(typical(wanted), smallest);
  Comparison result;
  for (std::size_t i = 0; i < values.size(); ++i) {
    double w = is_floating(got.dtype()) ? wanted[i] : rounded(wanted[i], got.dtype());
    double error = 0;
    if (std::isnan(w) || std::isnan(values[i])) {
      error = std::isnan(w) == std::isnan(values[i]) ? 0 : kInfinity;
    } else if (std::isinf(w) || std::isinf(values[i])) {
      error = rounded(w, got.dtype()) == values[i] ? 0 : kInfinity;
    } else if (values[i] != w) {
      error = is_floating(got.dtype()) ? std::abs(values[i] - w) / std::max(std::abs(w), usual) : kInfinity;
    }
    if (error > result.error || (error > 0 && result.worst.empty())) {
      result = {error, fmt::format("element {}: {}, wanted {}", i, values[i], w)};
    }
  }
  return result;
}

}  // namespace etna::conformance
