#include <etna/tensor/quant/internal/integer_formats.h>

#include <algorithm>
#include <cmath>

#include <etna/tensor/quant/internal/block_bytes.h>
#include <etna/tensor/quant/internal/fit.h>

namespace etna::quant {
namespace {

/// A scale and zero point in f16; quants range from kLow to kLow + kLast.
struct Grid {
  float d = 0.0f, z = 0.0f;
};

template <int Bits>
constexpr int kLow = Bits == 8 ? -128 : 0;
template <int Bits>
constexpr int kLast = Bits == 8 ? 255 : 15;

template <int Bits>
float quant_of(float x, float inverse, Grid grid) {
  return IntegerQuants<kLow<Bits>, kLow<Bits> + kLast<Bits>>::round(x * inverse + grid.z);
}
float inverse_of(float d) { return d != 0.0f ? 1.0f / d : 0.0f; }

template <int Bits>
float grid_error(const float* x, const float* w, int n, Grid grid) {
  const float inverse = inverse_of(grid.d);
  Sums error;
  for (int i = 0; i < n; i += 8) {
    for (int l = 0; l < 8; ++l) {
      const float off = x[i + l] - grid.d * (quant_of<Bits>(x[i + l], inverse, grid) - grid.z);
      error.lanes[l] += w[i + l] * off * off;
    }
  }
  return error.total();
}
/// The least squares scale for the quants that a grid yields.
template <int Bits>
float refit(const float* x, const float* w, int n, Grid grid) {
  const float inverse = inverse_of(grid.d);
  Sums xq, qq;
  for (int i = 0; i < n; i += 8) {
    for (int l = 0; l < 8; ++l) {
      const float q = quant_of<Bits>(x[i + l], inverse, grid) - grid.z, wq = w[i + l] * q;
      xq.lanes[l] += wq * x[i + l];
      qq.lanes[l] += wq * q;
    }
  }
  const float a = xq.total(), b = qq.total();
  return a > 0.0f && b > 0.0f ? to_f16(a / b) : grid.d;
}

/// The best affine fit whose minimum is an integer number of steps, with the neighbouring zero points tried, too.
template <int Bits>
Grid fit_zero_point(const float* x, const float* w, int n) {
  const Affine fit = fit_affine<kLast<Bits>, 0>(x, w, true, n);
  const float last = kLast<Bits>, low = kLow<Bits>;
  const float start = fit.d > 0.0f ? std::clamp(nearest(std::min(-fit.m / fit.d, last)), 0.0f, last) : 0.0f;
  Grid best;
  float best_error = 0.0f;
  for (int off = -1; off <= 1; ++off) {
    Grid grid{to_f16(fit.d), std::clamp(start + static_cast<float>(off), 0.0f, last) + low};
    for (int round = 0; round < 3; ++round) {
      const float error = grid_error<Bits>(x, w, n, grid);
      if ((off == -1 && round == 0) || error < best_error) {
        best = grid;
        best_error = error;
      }
      grid.d = refit<Bits>(x, w, n, grid);
    }
  }
  return best;
}

template <int Bits, bool ZeroPoint>
Grid fit_grid(const float* x, const float* w, int n) {
  if constexpr (ZeroPoint) return fit_zero_point<Bits>(x, w, n);
  // With 4 bits, a negative scale may fit better, because there is -8 but no 8.
  if constexpr (Bits == 8) return {std::abs(fit_f16_scale<IntegerQuants<-127, 127>, 0>(x, w, n)), 0.0f};
  return {fit_f16_scale<IntegerQuants<-8, 7>, 0>(x, w, n), 8.0f};
}

/// A grid for a whole row. The more values share a scale, the more it pays to clip the largest ones: smaller scales are
/// tried, down to a tenth.
template <int Bits, bool ZeroPoint>
Grid fit_row(const float* x, const float* w, int n) {
  const Grid widest = fit_grid<Bits, ZeroPoint>(x, w, n);
  Grid best = widest;
  float best_error = grid_error<Bits>(x, w, n, best);
  for (float share = 0.93f; share > 0.1f; share *= 0.93f) {
    Grid grid{to_f16(widest.d * share), widest.z};
    for (int round = 0; round < 2; ++round) {
      const float error = grid_error<Bits>(x, w, n, grid);
      if (error < best_error) {
        best = grid;
        best_error = error;
      }
      if (widest.d > 0.0f) grid.d = refit<Bits>(x, w, n, grid);
    }
  }
  return best;
}

template <int Bits, int Elements, bool ZeroPoint>
void encode_block(const float* x, Grid grid, std::byte* block) {
  store_f16(block, grid.d);
  if constexpr (ZeroPoint) store_f16(block + 2, grid.z);
  std::byte* to = block + IntegerBlocks<Bits, Elements, ZeroPoint>::kHead;
  const float inverse = inverse_of(grid.d);
  if constexpr (Bits == 8) {
    const float least = ZeroPoint ? -128.0f : -127.0f;
    for (int i = 0; i < Elements; ++i)
      store(to + i, static_cast<std::int8_t>(std::max(least, quant_of<8>(x[i], inverse, grid))));
  } else {
    const auto quant = [&](int i) { return static_cast<unsigned>(quant_of<4>(x[i], inverse, grid)); };
    for (int run = 0; run < Elements; run += 32)
      for (int j = 0; j < 16; ++j) to[run / 2 + j] = to_byte(quant(run + j) | quant(run + j + 16) << 4);
  }
}

}  // namespace

template <int Bits, int Elements, bool ZeroPoint>
void IntegerBlocks<Bits, Elements, ZeroPoint>::encode(const float* values, const float* weights, std::byte* to) {
  encode_block<Bits, Elements, ZeroPoint>(values, fit_grid<Bits, ZeroPoint>(values, weights, Elements), to);
}

template <int Bits, int Elements, bool ZeroPoint>
void IntegerBlocks<Bits, Elements, ZeroPoint>::encode_row(const float* values, const float* weights, std::byte* blocks,
                                                          std::int64_t count) {
  const Grid grid = fit_row<Bits, ZeroPoint>(values, weights, static_cast<int>(count * Elements));
  for (std::int64_t b = 0; b < count; ++b)
    encode_block<Bits, Elements, ZeroPoint>(values + b * Elements, grid, blocks + b * Layout::kBytes);
}

template struct IntegerBlocks<8, 64, false>;
template struct IntegerBlocks<8, 128, false>;
template struct IntegerBlocks<8, 32, true>;
template struct IntegerBlocks<8, 64, true>;
template struct IntegerBlocks<8, 128, true>;
template struct IntegerBlocks<4, 64, false>;
template struct IntegerBlocks<4, 128, false>;
template struct IntegerBlocks<4, 32, true>;
template struct IntegerBlocks<4, 64, true>;
template struct IntegerBlocks<4, 128, true>;

}  // namespace etna::quant
