#pragma once

#include <cstdint>
#include <functional>

#include <etna/tensor/tensor.h>

namespace etna::optim {

/// A function along a line.
struct LinePoint {
  double t, loss, slope;  ///< slope: derivative by t
  Tensor grad = {};       ///< all derivatives; only kept along
};
struct LineSearchResult {
  LinePoint point;
  std::int64_t evaluations;
};

/// Finds a point that satisfies the strong Wolfe conditions (Nocedal & Wright, Algorithms 3.5 and 3.6), by PyTorch's
/// sequence of trials.
/// @param at evaluates a point @param start at t = 0 @param t the first trial
/// @param size largest magnitude in the direction; a bracket shorter than tolerance / size ends the search
LineSearchResult strong_wolfe(const std::function<LinePoint(double t)>& at, const LinePoint& start, double t,
                              double size, double tolerance);

}  // namespace etna::optim
