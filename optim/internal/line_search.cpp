#include <etna/optim/internal/line_search.h>

#include <algorithm>
#include <cmath>

namespace etna::optim {
namespace {

constexpr double kDecrease = 1e-4, kCurvature = 0.9;
constexpr int kMostTrials = 25;

/// The minimum of the cubic through two points and their slopes, within bounds.
double cubic_minimum(const LinePoint& a, const LinePoint& b, double low, double high) {
  const double d1 = a.slope + b.slope - 3 * (a.loss - b.loss) / (a.t - b.t), square = d1 * d1 - a.slope * b.slope;
  if (!(square >= 0)) return (low + high) / 2;
  const double d2 = std::sqrt(square);
  const LinePoint &left = a.t <= b.t ? a : b, &right = a.t <= b.t ? b : a;
  const double at = right.t - (right.t - left.t) * ((right.slope + d2 - d1) / (right.slope - left.slope + 2 * d2));
  return std::min(std::max(at, low), high);
}

}  // namespace

LineSearchResult strong_wolfe(const std::function<LinePoint(double t)>& at, const LinePoint& start, double t,
                              double size, double tolerance) {
  const auto too_high = [&](const LinePoint& p) { return p.loss > start.loss + kDecrease * p.t * start.slope; };
  const auto flat = [&](const LinePoint& p) { return std::abs(p.slope) <= -kCurvature * start.slope; };

  LinePoint previous = start, now = at(t);
  std::int64_t evaluations = 1;
  int trials = 0;
  LinePoint low = start, high = now;  // the better and the worse end of a bracket
  bool bracketed = false;
  for (; trials < kMostTrials; ++trials) {
    if (too_high(now) || (trials > 1 && now.loss >= previous.loss)) {
      bracketed = true;
      break;
    }
    if (flat(now)) return {now, evaluations};
    if (now.slope >= 0) {
      bracketed = true;
      break;
    }
    const double next = cubic_minimum(previous, now, now.t + 0.01 * (now.t - previous.t), now.t * 10);
    previous = now;
    now = at(next);
    ++evaluations;
  }
  low = bracketed ? previous : start, high = now;
  if (!(low.loss <= high.loss)) std::swap(low, high);

  bool slow = false;
  while (bracketed && trials < kMostTrials) {
    const double left = std::min(low.t, high.t), right = std::max(low.t, high.t);
    if ((right - left) * size < tolerance) break;
    double next = cubic_minimum(low, high, left, right);
    // Trials close to an end bring little: the second one in a row moves inwards.
    const double margin = 0.1 * (right - left);
    if (std::min(right - next, next - left) < margin) {
      if (slow || next >= right || next <= left) {
        next = std::abs(next - right) < std::abs(next - left) ? right - margin : left + margin;
        slow = false;
      } else {
        slow = true;
      }
    } else {
      slow = false;
    }
    now = at(next);
    ++evaluations, ++trials;
    if (too_high(now) || now.loss >= low.loss) {
      high = now;
      if (!(low.loss <= high.loss)) std::swap(low, high);
      continue;
    }
    if (flat(now)) return {now, evaluations};
    if (now.slope * (high.t - low.t) >= 0) high = low;
    low = now;
  }
  return {low, evaluations};
}

}  // namespace etna::optim
