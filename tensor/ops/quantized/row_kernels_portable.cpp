#include <string_view>

#include <etna/tensor/ops/quantized/internal/packed_formats.h>
#include <etna/tensor/ops/quantized/internal/read_rows.h>
#include <etna/tensor/ops/quantized/internal/round_groups.h>
#include <etna/tensor/ops/quantized/internal/row_kernels.h>
#include <etna/tensor/ops/quantized/internal/row_kernels_targets.h>

#define ETNA_TARGET
#define ETNA_BF16_TARGET
#define ETNA_LAMBDA

namespace etna::quantized::portable {
namespace {

struct Vector {
  using Sum = float;
  static Sum zero() { return 0; }
  static float total(Sum sum) { return sum; }

  template <typename F, int M>
  static ETNA_INLINE void group(const std::byte* b, const RoundedGroup* x, Sum (&sums)[M]) {
    alignas(64) std::uint8_t codes[kGroup];
    alignas(64) float scales[kSubs], minimums[kSubs];
    F::scales(b, scales, minimums);
    F::codes(b, codes);
    for (int m = 0; m < M; ++m) {
      const std::int8_t* own = x[m].codes;
      for (int s = 0; s < kSubs; ++s) {
        int product = 0;
        for (int i = 0; i < 16; ++i) product += static_cast<int>(codes[16 * s + i]) * own[16 * s + i];
        sums[m] += scales[s] * x[m].scales[s] * static_cast<float>(product) - minimums[s] * x[m].sums[s];
      }
    }
  }
  template <typename F>
  static ETNA_INLINE void widen(const std::byte* b, float* out) {
    widen_by_loops<F>(b, out);
  }
  static ETNA_INLINE void narrow(const float* x, std::uint16_t* y) { narrow_by_loops(x, y); }

  static constexpr int kFloats = 8;
  struct Floats {
    float at[kFloats];
  };
  static ETNA_INLINE Floats none() { return {}; }
  template <typename T>
  static ETNA_INLINE Floats load(const T* x) {
    Floats y;
    for (int i = 0; i < kFloats; ++i) y.at[i] = value(x[i]);
    return y;
  }
  static ETNA_INLINE void store(const Floats& x, float* to) { std::memcpy(to, x.at, sizeof x.at); }
  static ETNA_INLINE Floats multiply_add(const Floats& a, const Floats& b, const Floats& c) {
    Floats y;
    for (int i = 0; i < kFloats; ++i) y.at[i] = a.at[i] * b.at[i] + c.at[i];
    return y;
  }
  static ETNA_INLINE float total(const Floats& a, const Floats& b, const Floats& c, const Floats& d) {
    float sum = 0;
    for (int i = 0; i < kFloats; ++i) sum += (a.at[i] + b.at[i]) + (c.at[i] + d.at[i]);
    return sum;
  }
};

#include <etna/tensor/ops/quantized/internal/row_kernels.inc>

}  // namespace

RowKernels kernels(std::string_view format) { return find(format); }

}  // namespace etna::quantized::portable
