#include <algorithm>
#include <cmath>

#include <etna/tensor/ops/resample/internal/resample.h>

// The weights of one dimension as lists, for the CPU. shaders/resample/resample.comp computes the same weights on the
// fly.
namespace etna::resample {
namespace {

/// The position in the input that result `o` corresponds to.
double source(const ResampleAttrs& map, const Axis& a, std::int64_t o) {
  const auto at = static_cast<double>(o);
  return map.align_corners ? at * a.scale : (at + 0.5) * a.scale - 0.5;
}

/// Calls tap(position, weight) for the elements that result `o` reads.
template <typename Tap>
void each_tap(const ResampleAttrs& map, const Axis& a, std::int64_t o, const Tap& tap) {
  const std::int64_t last = a.from - 1;
  switch (map.kind) {
    case Kind::window: {
      const std::int64_t start = o * a.stride - a.padding, stop = start + a.kernel;
      const std::int64_t begin = std::max<std::int64_t>(start, 0), end = std::min<std::int64_t>(stop, a.from);
      const std::int64_t counted =
          map.divisor == Divisor::with_padding ? std::min<std::int64_t>(stop, a.from + a.padding) - start : end - begin;
      const double weight = map.divisor == Divisor::none ? 1 : 1 / static_cast<double>(counted);
      for (std::int64_t i = begin; i < end; ++i) tap(i, weight);
      break;
    }
    case Kind::adaptive: {
      const std::int64_t begin = o * a.from / a.to, end = ((o + 1) * a.from + a.to - 1) / a.to;
      for (std::int64_t i = begin; i < end; ++i) tap(i, 1 / static_cast<double>(end - begin));
      break;
    }
    case Kind::nearest:
    case Kind::nearest_exact: {
      // f32 for every dtype, so that all devices choose the same element.
      const float at = static_cast<float>(o) + (map.kind == Kind::nearest ? 0.0f : 0.5f);
      tap(std::min(static_cast<std::int64_t>(std::floor(at * static_cast<float>(a.scale))), last), 1.0);
      break;
    }
    case Kind::linear: {
      const double at = std::max(0.0, source(map, a, o));
      const std::int64_t first = std::min(static_cast<std::int64_t>(at), last);
      const double t = std::min(1.0, at - static_cast<double>(first));
      tap(first, first < last ? 1 - t : 1.0);
      if (first < last) tap(first + 1, t);
      break;
    }
    case Kind::cubic: {
      const double at = source(map, a, o), floor = std::floor(at), t = at - floor, A = -0.75;
      const auto near = [&](double d) { return ((A + 2) * d - (A + 3)) * d * d + 1; };
      const auto far = [&](double d) { return ((A * d - 5 * A) * d + 8 * A) * d - 4 * A; };
      const double weights[4] = {far(t + 1), near(t), near(1 - t), far(2 - t)};
      for (int k = 0; k < 4; ++k)
        tap(std::clamp<std::int64_t>(static_cast<std::int64_t>(floor) - 1 + k, 0, last), weights[k]);
      break;
    }
    case Kind::reflect: {
      std::int64_t i = std::abs(o - a.padding);
      tap(i > last ? 2 * last - i : i, 1.0);
      break;
    }
    case Kind::replicate:
      tap(std::clamp<std::int64_t>(o - a.padding, 0, last), 1.0);
      break;
    case Kind::circular: {
      const std::int64_t i = (o - a.padding) % a.from;
      tap(i < 0 ? i + a.from : i, 1.0);
      break;
    }
  }
}

}  // namespace

Taps taps_of(const ResampleAttrs& map, int axis) {
  const Axis& a = map.axes[axis];
  Taps taps;
  taps.start.assign(static_cast<std::size_t>(map.given(axis)) + 1, 0);
  if (!map.transposed) {
    for (std::int64_t o = 0; o < a.to; ++o) {
      each_tap(map, a, o, [&](std::int64_t i, double w) {
        if (w == 0) return;
        taps.at.push_back(static_cast<std::int32_t>(i));
        taps.weight.push_back(w);
      });
      taps.start[static_cast<std::size_t>(o) + 1] = static_cast<std::int32_t>(taps.at.size());
    }
    return taps;
  }
  for (std::int64_t o = 0; o < a.to; ++o)
    each_tap(map, a, o, [&](std::int64_t i, double w) { taps.start[static_cast<std::size_t>(i) + 1] += w != 0; });
  for (std::size_t i = 1; i < taps.start.size(); ++i) taps.start[i] += taps.start[i - 1];
  taps.at.resize(static_cast<std::size_t>(taps.start.back()));
  taps.weight.resize(taps.at.size());
  std::vector<std::int32_t> next = taps.start;
  for (std::int64_t o = 0; o < a.to; ++o) {
    each_tap(map, a, o, [&](std::int64_t i, double w) {
      if (w == 0) return;
      const auto k = static_cast<std::size_t>(next[static_cast<std::size_t>(i)]++);
      taps.at[k] = static_cast<std::int32_t>(o);
      taps.weight[k] = w;
    });
  }
  return taps;
}

}  // namespace etna::resample
