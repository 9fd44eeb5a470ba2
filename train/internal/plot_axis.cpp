#include <etna/train/internal/plot_axis.h>

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace etna::training {
namespace {

/// Keeps differences of two numbers finite.
constexpr double kMost = 1e300;

/// 1, 2 or 5 times a power of ten, so that `span` has about `count` of them.
double round_step(double span, int count) {
  const double raw = span / std::max(count, 1);
  const double power = std::pow(10, std::floor(std::log10(raw)));
  const double ratio = raw / power;
  return (ratio < 1.5 ? 1 : ratio < 3.5 ? 2 : ratio < 7.5 ? 5 : 10) * power;
}

/// A label with as many digits as tell ticks apart that are `step` apart. @param most the largest absolute value
std::string label_of(double value, double step, double most) {
  if (value == 0 || std::abs(value) < step * 1e-6) return "0";
  if (most >= 1e12 || most < 1e-3) {
    const double digits = std::floor(std::log10(std::abs(value)) + 1e-9) - std::floor(std::log10(step) + 1e-9);
    const int exponent = static_cast<int>(std::floor(std::log10(std::abs(value)) + 1e-9));
    const double mantissa = value / std::pow(10, exponent);
    return fmt::format("{:.{}f}e{}", mantissa, static_cast<int>(std::clamp(digits, 0.0, 15.0)), exponent);
  }
  const double unit = most >= 1e9 ? 1e9 : most >= 1e6 ? 1e6 : most >= 1e4 ? 1e3 : 1;
  const char* suffix = unit == 1e9 ? "G" : unit == 1e6 ? "M" : unit == 1e3 ? "k" : "";
  const int decimals = static_cast<int>(std::ceil(-std::log10(step / unit) - 1e-6));
  return fmt::format("{:.{}f}{}", value / unit, std::clamp(decimals, 0, 12), suffix);
}

/// "1e-05" is for machines.
std::string label_of_power(int exponent, int digit) {
  const double value = digit * std::pow(10, exponent);
  return exponent < -3 || exponent > 11 ? fmt::format("{}e{}", digit, exponent) : label_of(value, value, value);
}

}  // namespace

Axis::Axis(double low, double high, bool logarithmic, int count, bool rounded)
    : low_(low), high_(high), logarithmic_(logarithmic) {
  const double size = std::max(std::abs(low_), std::abs(high_));
  // Constant series, and those whose changes are rounding.
  if (!(high_ - low_ > size * 1e-12) || high_ - low_ < 1e-290) {
    const double room = size < 1e-280 ? 1 : size * 0.1;
    if (logarithmic_) {
      low_ = std::max(low_ / 2, 1e-300);
      high_ = std::max(high_ * 2, low_ * 4);
    } else {
      low_ -= room;
      high_ += room;
    }
  }
  if (logarithmic_ && std::log10(high_ / low_) >= 1) {
    decades(count, rounded);
  } else {
    linear(count, rounded);
  }
}

void Axis::linear(int count, bool rounded) {
  const double step = round_step(high_ - low_, count);
  if (rounded && !logarithmic_) {
    low_ = std::floor(low_ / step + 1e-9) * step;
    high_ = std::ceil(high_ / step - 1e-9) * step;
  }
  const double most = std::max(std::abs(low_), std::abs(high_));
  const double first = std::ceil(low_ / step - 1e-9), last = std::floor(high_ / step + 1e-9);
  for (int i = 0; first + i <= last && i < 64; ++i) {
    const double value = (first + i) * step;
    if (logarithmic_ && !(value > 0)) continue;
    ticks_.push_back({value, label_of(value, step, most)});
  }
}

void Axis::decades(int count, bool rounded) {
  const double span = std::log10(high_) - std::log10(low_);
  const int every = std::max(1, static_cast<int>(std::ceil(span / std::max(count, 1))));
  const int first = static_cast<int>(std::floor(std::log10(low_) + 1e-9));
  const int last = static_cast<int>(std::ceil(std::log10(high_) - 1e-9));
  for (int exponent = first; exponent <= last; ++exponent) {
    if ((exponent - first) % every != 0) continue;
    for (const int digit : {1, 2, 5}) {
      if (digit != 1 && (every > 1 || span * 3 > count + 2)) continue;
      const double value = digit * std::pow(10, exponent);
      if (value >= low_ * (1 - 1e-9) && value <= high_ * (1 + 1e-9))
        ticks_.push_back({value, label_of_power(exponent, digit)});
    }
  }
  if (rounded) {
    low_ /= std::pow(10, span * 0.03);
    high_ *= std::pow(10, span * 0.03);
  }
}

double Axis::place(double value) const {
  if (!logarithmic_) return (value - low_) / (high_ - low_);
  return std::log10(value / low_) / std::log10(high_ / low_);
}

Drawing drawing_of(const std::vector<Series>& series, bool log_x, bool log_y, std::size_t most) {
  Drawing drawing;
  const auto drawn = [&](const PlotPoint& p) {
    return std::isfinite(p.x) && std::isfinite(p.y) && (!log_x || p.x >= 1e-300) && (!log_y || p.y >= 1e-300);
  };
  for (const Series& one : series) {
    std::vector<Segment> segments;
    bool open = false;
    const auto add = [&](PlotPoint p) {
      p = {std::clamp(p.x, -kMost, kMost), std::clamp(p.y, -kMost, kMost)};
      if (!open) segments.emplace_back();
      open = true;
      segments.back().push_back(p);
      drawing.low_x = drawing.empty ? p.x : std::min(drawing.low_x, p.x);
      drawing.high_x = drawing.empty ? p.x : std::max(drawing.high_x, p.x);
      drawing.low_y = drawing.empty ? p.y : std::min(drawing.low_y, p.y);
      drawing.high_y = drawing.empty ? p.y : std::max(drawing.high_y, p.y);
      drawing.empty = false;
    };
    const std::size_t n = one.points.size();
    const std::size_t parts = n <= most ? n : std::max<std::size_t>(1, most / 4);
    for (std::size_t part = 0; part < parts; ++part) {
      const std::size_t begin = part * n / parts, end = (part + 1) * n / parts;
      std::vector<std::size_t> kept(4, n);  // first, lowest, highest, last
      std::size_t gaps = 0;
      for (std::size_t i = begin; i < end; ++i) {
        if (!drawn(one.points[i])) {
          ++gaps;
          continue;
        }
        const double y = one.points[i].y;
        if (kept[0] == n) kept.assign(4, i);
        if (y < one.points[kept[1]].y) kept[1] = i;
        if (y > one.points[kept[2]].y) kept[2] = i;
        kept[3] = i;
      }
      std::sort(kept.begin(), kept.end());
      kept.erase(std::unique(kept.begin(), kept.end()), kept.end());
      for (const std::size_t i : kept) {
        if (i < n) add(one.points[i]);
      }
      if (2 * gaps > end - begin) open = false;
    }
    drawing.series.push_back(std::move(segments));
  }
  // Steps that begin at 1 are shown from 0.
  if (!log_x && drawing.low_x > 0 && drawing.low_x < 0.05 * drawing.high_x) drawing.low_x = 0;
  return drawing;
}

std::string short_number(double value) {
  const double size = std::abs(value);
  if (value == std::trunc(value) && size < 1e4) return fmt::format("{:.0f}", value);
  if (size < 1e-290) return fmt::format("{:.4g}", value);  // powers of ten this small are not exact
  // Four digits: a step of three powers below the first.
  const double power = std::pow(10, std::floor(std::log10(size)) - 3);
  return label_of(value, power, size);
}

std::string last_value(const Series& series) {
  for (auto at = series.points.rbegin(); at != series.points.rend(); ++at) {
    if (std::isfinite(at->y)) return short_number(at->y);
  }
  return "";
}

}  // namespace etna::training
