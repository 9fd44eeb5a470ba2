#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <etna/train/report.h>

/// What pictures and terminals have in common: axes, and what of a series is drawn.
namespace etna::training {

struct Tick {
  double value;
  std::string label;
};

class Axis {
 public:
  /// An axis over [low, high], with about `count` ticks at round numbers. @param rounded ends at ticks
  Axis(double low, double high, bool logarithmic, int count, bool rounded);

  /// 0 at the low end, 1 at the high end.
  double place(double value) const;
  const std::vector<Tick>& ticks() const { return ticks_; }

 private:
  void linear(int count, bool rounded);
  void decades(int count, bool rounded);

  double low_, high_;
  bool logarithmic_;
  std::vector<Tick> ticks_;
};

/// Points that are joined by lines.
using Segment = std::vector<PlotPoint>;

struct Drawing {
  std::vector<std::vector<Segment>> series;  ///< the segments of each series
  double low_x = 0, high_x = 0, low_y = 0, high_y = 0;
  bool empty = true;  ///< no series has a point to draw
};

/// Reduces each series to about `most` points at most: the first, last, lowest and highest of equal parts.
Drawing drawing_of(const std::vector<Series>& series, bool log_x, bool log_y, std::size_t most);

/// A finite number in four digits: "3.214", "181.2k", "3.000e-5".
std::string short_number(double value);

/// short_number() of the last finite value of a series; empty where there is none.
std::string last_value(const Series& series);

}  // namespace etna::training
