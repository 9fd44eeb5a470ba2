#pragma once

#include <etna/tensor/quant/internal/fit.h>

/// Fits of super-blocks of 256: the scale (and minimum) of each sub-block is a small integer in units of an f16 for the
/// whole super-block. The integers and the units are improved in turn.
namespace etna::quant {

/// x ~ d * scale * q for each of `Subs` sub-blocks; scales are integers from Low to High.
template <typename Quants, int Subs, int Low, int High>
struct SymmetricFit {
  static constexpr int kSize = 256 / Subs;
  float d = 0.0f;  ///< exact in f16
  int scales[Subs] = {};

  SymmetricFit(const float* x, const float* w) {
    float wanted[Subs], extreme = 0.0f;
    for (int s = 0; s < Subs; ++s) {
      wanted[s] = fit_scale<Quants, kSize>(x + s * kSize, w + s * kSize);
      if (std::abs(wanted[s]) > std::abs(extreme)) extreme = wanted[s];
    }
    // Low is one step farther from 0 than High, so the scale of largest magnitude is mapped to it.
    const float unit = to_f16(extreme / Low);
    if (unit == 0.0f) return;
    set(x, w, unit, wanted);
    float best = error(x, w);
    for (int round = 0; round < 3; ++round) {
      SymmetricFit other = *this;
      other.refit(x, w);
      if (other.d == 0.0f) break;
      for (int s = 0; s < Subs; ++s) wanted[s] = static_cast<float>(other.scales[s]) * other.d;
      other.set(x, w, other.d, wanted);
      const float now = other.error(x, w);
      if (!(now < best)) break;
      best = now;
      *this = other;
    }
  }

  /// The step of a sub-block, computed like in the decoder.
  float step(int sub) const { return d * static_cast<float>(scales[sub]); }

 private:
  SymmetricFit(const SymmetricFit&) = default;
  SymmetricFit& operator=(const SymmetricFit&) = default;

  float error(const float* x, const float* w) const {
    float sum = 0.0f;
    for (int s = 0; s < Subs; ++s) sum += scale_error<Quants, kSize>(x + s * kSize, w + s * kSize, step(s));
    return sum;
  }

  /// Sets each scale to the integer of least error near the wanted one.
  void set(const float* x, const float* w, float unit, const float* wanted) {
    d = unit;
    for (int s = 0; s < Subs; ++s) {
      const int middle = static_cast<int>(nearest(std::clamp(wanted[s] / unit, Low * 1.0f, High * 1.0f)));
      float best = 0.0f;
      for (int scale = std::max(Low, middle - 1); scale <= std::min(High, middle + 1); ++scale) {
        const float now = scale_error<Quants, kSize>(x + s * kSize, w + s * kSize, d * static_cast<float>(scale));
        if (scale == std::max(Low, middle - 1) || now < best) {
          best = now;
          scales[s] = scale;
        }
      }
    }
  }

  /// Sets the unit to the least squares solution for the present scales and quants.
  void refit(const float* x, const float* w) {
    float xq = 0.0f, qq = 0.0f;
    for (int s = 0; s < Subs; ++s) {
      const float inverse = scales[s] != 0 ? 1.0f / step(s) : 0.0f;
      Sums sub_xq, sub_qq;
      for (int i = s * kSize; i < (s + 1) * kSize; i += 8) {
        for (int l = 0; l < 8; ++l) {
          const float q = Quants::round(x[i + l] * inverse) * static_cast<float>(scales[s]), wq = w[i + l] * q;
          sub_xq.lanes[l] += wq * x[i + l];
          sub_qq.lanes[l] += wq * q;
        }
      }
      xq += sub_xq.total();
      qq += sub_qq.total();
    }
    d = qq > 0.0f ? to_f16(xq / qq) : 0.0f;
  }
};

/// x ~ d * scale * q - least * minimum for each of `Subs` sub-blocks; scales and minimums are integers from 0 to
/// `High`, quants from 0 to `Last`.
template <int Last, int Subs, int High>
struct AffineFit {
  static constexpr int kSize = 256 / Subs;
  float d = 0.0f, least = 0.0f;  ///< exact in f16
  int scales[Subs] = {}, minimums[Subs] = {};

  AffineFit(const float* x, const float* w) {
    Affine wanted[Subs];
    float widest = 0.0f, lowest = 0.0f;
    for (int s = 0; s < Subs; ++s) {
      wanted[s] = fit_affine<Last, kSize>(x + s * kSize, w + s * kSize, true);
      agree(x + s * kSize, w + s * kSize, wanted, s);
      widest = std::max(widest, wanted[s].d);
      lowest = std::min(lowest, wanted[s].m);
    }
    set(x, w, to_f16(widest / High), to_f16(-lowest / High), wanted);
    float best = error(x, w);
    for (int round = 0; round < 3; ++round) {
      AffineFit other = *this;
      if (!other.refit(x, w)) break;
      for (int s = 0; s < Subs; ++s) wanted[s] = other.sub(s);
      other.set(x, w, other.d, other.least, wanted);
      const float now = other.error(x, w);
      if (!(now < best)) break;
      best = now;
      *this = other;
    }
  }

  /// Scale and minimum of a sub-block, computed like in the decoder.
  Affine sub(int s) const { return {d * static_cast<float>(scales[s]), -(least * static_cast<float>(minimums[s]))}; }

 private:
  AffineFit(const AffineFit&) = default;
  AffineFit& operator=(const AffineFit&) = default;

  /// Replaces a sub-block's fit by that of an earlier one if that is as good. In regular data, such as ternary weights,
  /// many fits are exact, but only those that all sub-blocks share stay exact after rounding to shared units.
  static void agree(const float* x, const float* w, Affine* fits, int own) {
    float energy = 0.0f;
    for (int i = 0; i < kSize; ++i) energy += w[i] * x[i] * x[i];
    const float enough = affine_error<Last, kSize>(x, w, fits[own]) + 1e-6f * energy;
    for (int t = 0; t < own; ++t) {
      if (affine_error<Last, kSize>(x, w, fits[t]) > enough) continue;
      fits[own] = fits[t];
      return;
    }
  }

  float error(const float* x, const float* w) const {
    float sum = 0.0f;
    for (int s = 0; s < Subs; ++s) sum += affine_error<Last, kSize>(x + s * kSize, w + s * kSize, sub(s));
    return sum;
  }

  void set(const float* x, const float* w, float unit, float least_unit, const Affine* wanted) {
    d = unit;
    least = least_unit;
    const auto whole = [](float value, float by) {
      return by != 0.0f ? static_cast<int>(nearest(std::clamp(value / by, 0.0f, High * 1.0f))) : 0;
    };
    for (int s = 0; s < Subs; ++s) {
      const int scale = whole(wanted[s].d, d), minimum = whole(-wanted[s].m, least);
      float best = -1.0f;
      for (int a = std::max(0, scale - 1); a <= std::min(High, scale + 1); ++a) {
        for (int b = std::max(0, minimum - 1); b <= std::min(High, minimum + 1); ++b) {
          const Affine fit{d * static_cast<float>(a), -(least * static_cast<float>(b))};
          const float now = affine_error<Last, kSize>(x + s * kSize, w + s * kSize, fit);
          if (best < 0.0f || now < best) {
            best = now;
            scales[s] = a;
            minimums[s] = b;
          }
        }
      }
    }
  }

  /// Sets the units to the least squares solution for the present integers and quants, x ~ d * u + least * v. False if
  /// there is none.
  bool refit(const float* x, const float* w) {
    float uu = 0.0f, uv = 0.0f, vv = 0.0f, xu = 0.0f, xv = 0.0f;
    for (int s = 0; s < Subs; ++s) {
      const Affine fit = sub(s);
      const float inverse = fit.d != 0.0f ? 1.0f / fit.d : 0.0f, scale = static_cast<float>(scales[s]);
      Sums sw, sx, sq, sqq, sxq;
      for (int i = s * kSize; i < (s + 1) * kSize; i += 8) {
        for (int l = 0; l < 8; ++l) {
          const float q = IntegerQuants<0, Last>::round((x[i + l] - fit.m) * inverse), wq = w[i + l] * q;
          sw.lanes[l] += w[i + l];
          sx.lanes[l] += w[i + l] * x[i + l];
          sq.lanes[l] += wq;
          sqq.lanes[l] += wq * q;
          sxq.lanes[l] += wq * x[i + l];
        }
      }
      const float v = -static_cast<float>(minimums[s]);
      uu += scale * scale * sqq.total();
      uv += scale * v * sq.total();
      vv += v * v * sw.total();
      xu += scale * sxq.total();
      xv += v * sx.total();
    }
    const float determinant = uu * vv - uv * uv;
    if (determinant > 1e-6f * uu * vv) {
      const float new_d = (xu * vv - xv * uv) / determinant, new_least = (xv * uu - xu * uv) / determinant;
      if (!(new_d > 0.0f) || new_least < 0.0f) return false;
      d = to_f16(new_d);
      least = to_f16(new_least);
      return true;
    }
    if (!(uu > 0.0f) || !(xu > 0.0f) || vv > 0.0f) return false;
    d = to_f16(xu / uu);
    return true;
  }
};

}  // namespace etna::quant
