#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include <etna/device/internal/cpu/math.h>
#include <etna/device/internal/cpu/vector_rows.h>
#include <etna/tensor/ops/rows/internal/lanes.h>

/// The state of each reduction, computed in T (float, double or std::int64_t). A state accepts a run of elements
/// (`take`, vectorized) or a single element (`add`, for one of many columns), and combines with the state of later
/// elements (`merge`).
namespace etna::reduce {

/// Float sums accumulate in double, integer sums in unsigned 64 bits, where they wrap around.
template <typename T>
using Wide = std::conditional_t<std::is_floating_point_v<T>, double, std::uint64_t>;

template <typename T>
struct Sum {
  Wide<T> total = 0;
  void take(const T* x, std::int64_t n, std::int64_t) {
    if constexpr (std::is_floating_point_v<T>)
      total += cpu::sum(x, n);
    else
      total += rows::sum_of<Wide<T>>(n, [x](std::int64_t i) { return x[i]; });
  }
  void add(T x, std::int64_t) { total += static_cast<Wide<T>>(x); }
  void merge(const Sum& later) { total += later.total; }
};

template <typename T>
struct Prod {
  Wide<T> total = 1;
  void take(const T* x, std::int64_t n, std::int64_t) {
    for (std::int64_t i = 0; i < n; ++i) total *= static_cast<Wide<T>>(x[i]);
  }
  void add(T x, std::int64_t) { total *= static_cast<Wide<T>>(x); }
  void merge(const Prod& later) { total *= later.total; }
};

template <typename T>
constexpr T lowest() {
  if constexpr (std::is_floating_point_v<T>)
    return -std::numeric_limits<T>::infinity();
  else
    return std::numeric_limits<T>::lowest();
}
template <typename T>
constexpr T highest() {
  if constexpr (std::is_floating_point_v<T>)
    return std::numeric_limits<T>::infinity();
  else
    return std::numeric_limits<T>::max();
}

/// True if x replaces best: x is beyond best, or x is the first NaN.
template <bool largest, typename T>
bool beats(T x, T best) {
  return (largest ? x > best : x < best) || (x != x && best == best);
}

template <typename T, bool largest>
struct Extreme {
  T best = largest ? lowest<T>() : highest<T>();
  void take(const T* x, std::int64_t n, std::int64_t) {
    T lanes[rows::kLanes];
    for (T& lane : lanes) lane = best;
    std::int64_t i = 0;
    for (; i + rows::kLanes <= n; i += rows::kLanes) {
      for (int j = 0; j < rows::kLanes; ++j) lanes[j] = beats<largest>(x[i + j], lanes[j]) ? x[i + j] : lanes[j];
    }
    for (; i < n; ++i) add(x[i], 0);
    for (T lane : lanes) add(lane, 0);
  }
  void add(T x, std::int64_t) { best = beats<largest>(x, best) ? x : best; }
  void merge(const Extreme& later) { add(later.best, 0); }
};

template <typename T, bool largest>
struct ArgExtreme {
  T best{};
  std::int64_t at = -1;
  void take(const T* x, std::int64_t n, std::int64_t from) {
    for (std::int64_t i = 0; i < n; ++i) add(x[i], from + i);
  }
  void add(T x, std::int64_t i) {
    if (at < 0 || beats<largest>(x, best)) best = x, at = i;
  }
  void merge(const ArgExtreme& later) {
    if (later.at >= 0) add(later.best, later.at);
  }
};

/// log Σ exp(x) as largest + log(sum), with sum = Σ exp(x - largest). sum stays 0 while all elements are -inf.
template <typename T>
struct LogSumExp {
  T largest = lowest<T>();
  double sum = 0;
  void raise(T to) {
    if (beats<true>(to, largest)) {
      sum = sum > 0 ? sum * static_cast<double>(m::exp(largest - to)) : 0;
      largest = to;
    }
  }
  void take(const T* x, std::int64_t n, std::int64_t) {
    raise(cpu::largest(x, n));
    if (largest != lowest<T>()) sum += cpu::exp_sum(x, largest, nullptr, n);
  }
  void add(T x, std::int64_t) {
    raise(x);
    if (largest != lowest<T>()) sum += static_cast<double>(m::exp(x - largest));
  }
  void merge(const LogSumExp& later) {
    raise(later.largest);
    if (later.sum > 0) sum += later.sum * static_cast<double>(m::exp(later.largest - largest));
  }
  /// If largest is infinite or NaN, it is the result.
  double value() const {
    return std::isfinite(largest) ? static_cast<double>(largest) + std::log(sum) : static_cast<double>(largest);
  }
};

/// Σ x², in double, which holds the squares of every float.
template <typename T>
struct Norm {
  double squares = 0;
  void take(const T* x, std::int64_t n, std::int64_t) { squares += cpu::squares(x, 0, n); }
  void add(T x, std::int64_t) { squares += static_cast<double>(x) * static_cast<double>(x); }
  void merge(const Norm& later) { squares += later.squares; }
};

/// Mean and Σ (x - mean)², combined as in Chan, Golub & LeVeque (1983).
template <typename T>
struct Variance {
  double mean = 0, squares = 0, count = 0;
  void take(const T* x, std::int64_t n, std::int64_t) {
    Variance run;
    run.count = static_cast<double>(n);
    run.mean = cpu::sum(x, n) / run.count;
    run.squares = cpu::squares(x, run.mean, n);
    merge(run);
  }
  void add(T x, std::int64_t) {
    count += 1;
    double d = static_cast<double>(x) - mean;
    mean += d / count;
    squares += d * (static_cast<double>(x) - mean);
  }
  void merge(const Variance& later) {
    if (later.count == 0) return;
    double both = count + later.count, d = later.mean - mean;
    mean += d * (later.count / both);
    squares += later.squares + d * d * (count * later.count / both);
    count = both;
  }
};

}  // namespace etna::reduce
