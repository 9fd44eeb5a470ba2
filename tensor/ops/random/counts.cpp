#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <etna/tensor/capture.h>
#include <etna/tensor/op.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/random/random.h>

// Poisson and binomial numbers. If few events are expected, counts how many gaps between events fit; the number of gaps
// is bounded, so the work does not depend on values. If many are expected, takes the quantile at a normal number.
namespace etna {
namespace {

constexpr double kFew = 12;               ///< expected events up to which gaps are drawn
constexpr std::int64_t kGaps = 48;        ///< a Poisson number of mean 12 exceeds this with a probability of 1e-14
constexpr std::int64_t kChunk = 1 << 18;  ///< elements whose gaps are in memory at once

void counts_require_floating(const char* op, const Tensor& x) {
  detail::require_defined(op, x);
  if (!is_floating(x.dtype()))
    throw DtypeError(fmt::format("{}: the tensor holds {}, it must be floating", op, name(x.dtype())));
}

void check_values(const char* op, const char* what, const Tensor& x, double most) {
  if (!x.device().is_cpu() || capturing()) return;
  for (double value : x.to_vector<double>()) {
    if (!(value >= 0 && value <= most))
      throw ShapeError(fmt::format("{}: {} is {}, it must be {}", op, what, value,
                                   most == 1 ? "in [0, 1]" : "a number that is not negative"));
  }
}

/// Counts the sums of gaps that are at most `end`. @param gap makes gaps [n, kGaps] of exponential numbers, from
/// elements [begin, begin + n)
template <typename Gap>
Tensor events(const Tensor& end, const Gap& gap) {
  const Tensor list = end.reshape({end.numel()});
  std::vector<Tensor> parts;
  for (std::int64_t begin = 0; begin < list.numel(); begin += kChunk) {
    const std::int64_t n = std::min(kChunk, list.numel() - begin);
    const Tensor drawn = detail::standard_exponential({n, kGaps}, {end.dtype(), end.device()});
    const Tensor until = cumsum(gap(drawn, begin, n), 1);
    parts.push_back(sum(le(until, list.slice(0, begin, begin + n).unsqueeze(1)).to(end.dtype()), 1));
  }
  return (parts.size() == 1 ? parts[0] : cat(parts, 0)).reshape(end.shape());
}

/// The quantile at a normal number of a distribution on integers (Cornish & Fisher 1938).
/// @param variance the variance less 1/12, which rounding adds, is that of the distribution before it is rounded
Tensor quantile_at_normal(const Tensor& mean, const Tensor& variance, const Tensor& skewness, const Tensor& kurtosis) {
  const Tensor z = randn(mean.shape(), {mean.dtype(), mean.device()}), z2 = square(z);
  const Tensor bent = z + skewness * (z2 - 1.0) * (1.0 / 6) + kurtosis * z * (z2 - 3.0) * (1.0 / 24) -
                      square(skewness) * z * (z2 * 2.0 - 5.0) * (1.0 / 36);
  return floor(mean + sqrt(variance - 1.0 / 12) * bent + 0.5);
}

}  // namespace

Tensor poisson(const Tensor& rate) {
  counts_require_floating("poisson", rate);
  check_values("poisson", "a rate", rate, std::numeric_limits<double>::max());
  const GradMode off(false);
  const Tensor mean = rate.to(rate.dtype() == f64 ? f64 : f32);
  if (mean.numel() == 0) return rate.clone();
  const Tensor few = events(mean, [](const Tensor& gaps, std::int64_t, std::int64_t) { return gaps; });
  const Tensor many = clamp(mean, kFew, {}), inverse = reciprocal(many);
  return where(lt(mean, kFew), few, quantile_at_normal(many, many, sqrt(inverse), inverse)).to(rate.dtype());
}

Tensor binomial(const Tensor& count, const Tensor& prob) {
  counts_require_floating("binomial", count);
  counts_require_floating("binomial", prob);
  check_values("binomial", "a count", count, std::numeric_limits<double>::max());
  check_values("binomial", "a probability", prob, 1);
  const GradMode off(false);
  const DType result = promote(count.dtype(), prob.dtype()), t = result == f64 ? f64 : f32;
  const Shape shape = broadcast(count.shape(), prob.shape(), "binomial");
  const Tensor n = count.to(t).expand(shape), p = prob.to(t).expand(shape), q = 1.0 - p;
  if (n.numel() == 0) return (n * p).to(result);
  const Tensor rarer = minimum(p, q), expected = n * rarer;
  const Tensor hazards = (-log1p(-rarer)).reshape({n.numel()});
  const Tensor few = events(n, [&](const Tensor& gaps, std::int64_t begin, std::int64_t size) {
    const Tensor hazard = hazards.slice(0, begin, begin + size).unsqueeze(1);
    return where(gt(hazard, 0.0), floor(gaps / hazard) + 1.0, std::numeric_limits<double>::infinity());
  });
  const Tensor chosen = lt(expected, kFew), trials = where(chosen, 4 * kFew, n), share = where(chosen, 0.5, rarer);
  const Tensor mean = trials * share, variance = mean * (1.0 - share), deviation = sqrt(variance);
  const Tensor many = quantile_at_normal(mean, variance, (1.0 - share * 2.0) / deviation,
                                         (1.0 - share * (1.0 - share) * 6.0) / variance);
  const Tensor drawn = where(chosen, few, minimum(clamp(many, 0.0, {}), n));
  return where(gt(p, 0.5), n - drawn, drawn).to(result);
}

}  // namespace etna
