#include <etna/tensor/quant/internal/block32_formats.h>

#include <etna/tensor/quant/internal/block_bytes.h>
#include <etna/tensor/quant/internal/fit.h>

// Encoders of blocks of 32.
namespace etna::quant {
namespace {

constexpr int kBlock32FormatsBlock = 32, kBlock32FormatsHalf = 16;

/// Packs quants, each 0 or more.
template <bool Fifth>
void pack_quants(const unsigned* quants, std::byte* fifth, std::byte* bytes) {
  std::uint32_t high = 0;
  for (int j = 0; j < kBlock32FormatsHalf; ++j) {
    bytes[j] = to_byte((quants[j] & 0xfu) | (quants[j + kBlock32FormatsHalf] & 0xfu) << 4);
    high |= (quants[j] >> 4 & 1u) << j | (quants[j + kBlock32FormatsHalf] >> 4 & 1u) << (j + 16);
  }
  if (Fifth) store(fifth, high);
}

template <bool Fifth>
void encode_symmetric(const float* x, const float* w, std::byte* block) {
  constexpr int kZero = Fifth ? 16 : 8;
  using Quants = IntegerQuants<-kZero, kZero - 1>;
  const float d = fit_f16_scale<Quants, kBlock32FormatsBlock>(x, w), inverse = d != 0.0f ? 1.0f / d : 0.0f;
  unsigned quants[kBlock32FormatsBlock];
  for (int i = 0; i < kBlock32FormatsBlock; ++i)
    quants[i] = static_cast<unsigned>(static_cast<int>(Quants::round(x[i] * inverse)) + kZero);
  store_f16(block, d);
  pack_quants<Fifth>(quants, block + 2, block + (Fifth ? 6 : 2));
}

template <bool Fifth>
void encode_affine(const float* x, const float* w, std::byte* block) {
  constexpr int kLast = Fifth ? 31 : 15;
  const Affine found = fit_affine<kLast, kBlock32FormatsBlock>(x, w, false);
  Affine best{to_f16(found.d), to_f16(found.m)};
  float best_error = affine_error<kLast, kBlock32FormatsBlock>(x, w, best);
  // Rounding m to f16 may change it by more than d. Another d may then fit better, or the next f16 in the other
  // direction.
  const float nudge = std::abs(found.m) * 0x1p-11f;
  for (const float m : {best.m, to_f16(found.m - nudge), to_f16(found.m + nudge)}) {
    Affine fit{found.d, m};
    for (int round = 0; round < 2; ++round) {
      float xq = 0.0f, qq = 0.0f;
      const float inverse = fit.d != 0.0f ? 1.0f / fit.d : 0.0f;
      for (int i = 0; i < kBlock32FormatsBlock; ++i) {
        const float q = IntegerQuants<0, kLast>::round((x[i] - m) * inverse);
        xq += w[i] * q * (x[i] - m);
        qq += w[i] * q * q;
      }
      if (qq > 0.0f && xq > 0.0f) fit.d = to_f16(xq / qq);
      const Affine rounded{to_f16(fit.d), m};
      const float error = affine_error<kLast, kBlock32FormatsBlock>(x, w, rounded);
      if (error < best_error) {
        best_error = error;
        best = rounded;
      }
    }
  }
  const float inverse = best.d != 0.0f ? 1.0f / best.d : 0.0f;
  unsigned quants[kBlock32FormatsBlock];
  for (int i = 0; i < kBlock32FormatsBlock; ++i)
    quants[i] = static_cast<unsigned>(IntegerQuants<0, kLast>::round((x[i] - best.m) * inverse));
  store_f16(block, best.d);
  store_f16(block + 2, best.m);
  pack_quants<Fifth>(quants, block + 4, block + (Fifth ? 8 : 4));
}

}  // namespace

void Q8_0::encode(const float* x, const float* w, std::byte* block) {
  using Quants = IntegerQuants<-127, 127>;
  const float d = fit_f16_scale<Quants, kBlock32FormatsBlock>(x, w), inverse = d != 0.0f ? 1.0f / d : 0.0f;
  store_f16(block, d);
  for (int i = 0; i < kBlock32FormatsBlock; ++i)
    store(block + 2 + i, static_cast<std::int8_t>(Quants::round(x[i] * inverse)));
}

void Q4_0::encode(const float* x, const float* w, std::byte* block) { encode_symmetric<false>(x, w, block); }
void Q4_1::encode(const float* x, const float* w, std::byte* block) { encode_affine<false>(x, w, block); }
void Q5_0::encode(const float* x, const float* w, std::byte* block) { encode_symmetric<true>(x, w, block); }
void Q5_1::encode(const float* x, const float* w, std::byte* block) { encode_affine<true>(x, w, block); }

}  // namespace etna::quant
