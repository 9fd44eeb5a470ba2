#pragma once

#include <algorithm>
#include <bit>
#include <cmath>

#include <etna/tensor/quant/internal/block_bytes.h>

/// The search for scales. A block is encoded as quants q with the values value(q) * d, or q * d + m; each function here
/// finds the d (and m) with the least weighted squared error. Quants are kept as floats, so that loops over them
/// vectorize. N is the number of values; if it is not known at compile time, N is 0 and n, a multiple of 8, is used.
namespace etna::quant {

/// The nearest integer, for magnitudes below 2^22. Adding 1.5 * 2^23 rounds away the fraction.
inline float nearest(float x) {
  constexpr float kShift = 12582912.0f;
  return (x + kShift) - kShift;
}

/// Quants that are integers in a range; their value is the integer itself.
template <int Low, int High>
struct IntegerQuants {
  static constexpr int kSteps = High - Low;
  static constexpr float kWidest = -Low > High ? Low : High;  ///< the value farthest from 0
  /// The value nearest to x.
  static float round(float x) {
    return nearest(std::min(std::max(x, static_cast<float>(Low)), static_cast<float>(High)));
  }
};

/// Sums of products over a block, as eight interleaved partial sums.
struct Sums {
  float lanes[8] = {};
  float total() const {
    return ((lanes[0] + lanes[4]) + (lanes[1] + lanes[5])) + ((lanes[2] + lanes[6]) + (lanes[3] + lanes[7]));
  }
};

/// The weighted squared error of encoding N values with scale d.
template <typename Quants, int N>
float scale_error(const float* x, const float* w, float d, int n = N) {
  const float inverse = d != 0.0f ? 1.0f / d : 0.0f;
  Sums error;
  for (int i = 0; i < n; i += 8) {
    for (int l = 0; l < 8; ++l) {
      const float off = x[i + l] - d * Quants::round(x[i + l] * inverse);
      error.lanes[l] += w[i + l] * off * off;
    }
  }
  return error.total();
}

/// The scale for x ~ d * q. Tries scales around the one that maps the largest magnitude to the last quant, with both
/// signs, and replaces each by the least squares scale of its quants.
template <typename Quants, int N>
float fit_scale(const float* x, const float* w, int n = N) {
  float extreme = 0.0f;
  for (int i = 0; i < n; ++i) extreme = std::abs(x[i]) > std::abs(extreme) ? x[i] : extreme;
  if (!(std::abs(extreme) > 1e-20f)) return 0.0f;
  // With many quants there is less to gain, and only close to the full range.
  constexpr int kTries = Quants::kSteps > 100 ? 4 : 10;
  constexpr float kStep = Quants::kSteps > 100 ? 0.25f : Quants::kSteps > 20 ? 0.15f : 0.1f;
  // In units of one step between quants.
  constexpr float kRelative = (Quants::kWidest < 0 ? -Quants::kWidest : Quants::kWidest) * 2.0f / Quants::kSteps;
  float best = 0.0f, best_gain = -1.0f;
  for (int sign = 0; sign < 2; ++sign) {
    for (int step = -kTries; step <= kTries; ++step) {
      const float widest = Quants::kWidest + kRelative * kStep * static_cast<float>(step);
      const float inverse = (sign == 0 ? widest : -widest) / extreme;
      Sums xq, qq;
      for (int i = 0; i < n; i += 8) {
        for (int l = 0; l < 8; ++l) {
          const float q = Quants::round(x[i + l] * inverse), wq = w[i + l] * q;
          xq.lanes[l] += wq * x[i + l];
          qq.lanes[l] += wq * q;
        }
      }
      const float a = xq.total(), b = qq.total();
      if (b > 0.0f && a * a > best_gain * b) {
        best_gain = a * a / b;
        best = a / b;
      }
    }
  }
  return best;
}

/// fit_scale() in f16: the best of the rounded scale, the scales from the extreme value, and the results of further
/// rounds of least squares.
template <typename Quants, int N>
float fit_f16_scale(const float* x, const float* w, int n = N) {
  float best = to_f16(fit_scale<Quants, N>(x, w, n)), best_error = scale_error<Quants, N>(x, w, best, n);
  const auto offer = [&](float scale) {
    const float error = scale_error<Quants, N>(x, w, scale, n);
    if (error < best_error) {
      best_error = error;
      best = scale;
    }
  };
  // If all magnitudes are equal, rounding the scale to f16 is the whole error, and these scales may round better.
  float extreme = 0.0f;
  for (int i = 0; i < n; ++i) extreme = std::abs(x[i]) > std::abs(extreme) ? x[i] : extreme;
  offer(to_f16(extreme / Quants::kWidest));
  // A power of two keeps values exact that are exact in f16, such as ternary weights.
  offer(to_f16(extreme / static_cast<float>(std::bit_floor(static_cast<unsigned>(Quants::kSteps) / 2))));
  float scale = best;
  for (int round = 0; round < 2 && scale != 0.0f; ++round) {
    const float inverse = 1.0f / scale;
    float xq = 0.0f, qq = 0.0f;
    for (int i = 0; i < n; ++i) {
      const float q = Quants::round(x[i] * inverse);
      xq += w[i] * q * x[i];
      qq += w[i] * q * q;
    }
    if (!(qq > 0.0f)) break;
    scale = to_f16(xq / qq);
    offer(scale);
  }
  return best;
}

/// x ~ d * q + m, with q from 0 to a last quant.
struct Affine {
  float d = 0.0f, m = 0.0f;
};

template <int Last, int N>
float affine_error(const float* x, const float* w, Affine fit, int n = N) {
  const float inverse = fit.d != 0.0f ? 1.0f / fit.d : 0.0f;
  Sums error;
  for (int i = 0; i < n; i += 8) {
    for (int l = 0; l < 8; ++l) {
      const float q = IntegerQuants<0, Last>::round((x[i + l] - fit.m) * inverse);
      const float off = x[i + l] - (fit.d * q + fit.m);
      error.lanes[l] += w[i + l] * off * off;
    }
  }
  return error.total();
}

/// The least squares d and m for the quants of a fit. If `negative`, m is at most 0.
template <int Last, int N>
Affine refit_affine(const float* x, const float* w, Affine fit, bool negative, int n = N) {
  const float inverse = fit.d != 0.0f ? 1.0f / fit.d : 0.0f;
  Sums sw, sx, sq, sqq, sxq;
  for (int i = 0; i < n; i += 8) {
    for (int l = 0; l < 8; ++l) {
      const float q = IntegerQuants<0, Last>::round((x[i + l] - fit.m) * inverse), weight = w[i + l], wq = weight * q;
      sw.lanes[l] += weight;
      sx.lanes[l] += weight * x[i + l];
      sq.lanes[l] += wq;
      sqq.lanes[l] += wq * q;
      sxq.lanes[l] += wq * x[i + l];
    }
  }
  const float w1 = sw.total(), x1 = sx.total(), q1 = sq.total(), qq = sqq.total(), xq = sxq.total();
  const float determinant = w1 * qq - q1 * q1;
  if (determinant > 1e-6f * w1 * qq) {
    const Affine exact{(w1 * xq - x1 * q1) / determinant, (qq * x1 - q1 * xq) / determinant};
    if (exact.d > 0.0f && !(negative && exact.m > 0.0f)) return exact;
  }
  if (negative && qq > 0.0f && xq > 0.0f) return {xq / qq, 0.0f};
  return fit;
}

/// The scale and minimum for x ~ d * q + m, d >= 0. If `negative`, m <= 0.
template <int Last, int N>
Affine fit_affine(const float* x, const float* w, bool negative, int n = N) {
  float low = x[0], high = x[0];
  for (int i = 1; i < n; ++i) {
    low = std::min(low, x[i]);
    high = std::max(high, x[i]);
  }
  if (negative) {
    low = std::min(low, 0.0f);
    high = std::max(high, 0.0f);
  }
  if (!(high - low > 1e-20f)) return {0.0f, low};
  Affine best{(high - low) / Last, low};
  float best_error = affine_error<Last, N>(x, w, best, n), energy = 0.0f;
  for (int i = 0; i < n; ++i) energy += w[i] * x[i] * x[i];
  // The sub-blocks of a super-block share their units, so all should choose the same one among equally good fits.
  const float margin = 1e-6f * energy;
  const auto offer = [&](Affine fit) {
    const float error = affine_error<Last, N>(x, w, fit, n);
    if (error < best_error - margin) {
      best_error = error;
      best = fit;
    }
  };
  const auto try_steps = [&](float steps) {
    const float d = (high - low) / steps, spare = (high - low) - d * Last;
    // The range of quants is aligned to the low end of the values, to their middle, or to their high end.
    for (int at = 0; at < 3; ++at) {
      Affine fit{d, low + 0.5f * static_cast<float>(at) * spare};
      if (negative) fit.m = std::min(fit.m, 0.0f);
      for (int round = 0; round < 2; ++round) fit = refit_affine<Last, N>(x, w, fit, negative, n);
      offer(fit);
    }
  };
  // An even number of steps has a quant in the middle, which represents 0 if the values are symmetric.
  try_steps(static_cast<float>(Last - 1));
  // Fewer steps leave quants unused; more steps clip the ends.
  constexpr float kStep = Last > 20 ? 0.3f : Last > 10 ? 0.2f : Last > 3 ? 0.15f : 0.12f;
  constexpr int kTries = Last > 3 ? 4 : 5;
  for (int cut = -1; cut <= 2 * kTries; ++cut) try_steps(static_cast<float>(Last) + kStep * static_cast<float>(cut));
  return best;
}

}  // namespace etna::quant
