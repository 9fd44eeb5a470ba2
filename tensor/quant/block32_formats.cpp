#include <etna/tensor/quant/internal/block_bytes.h>
#include <etna/tensor/quant/internal/families.h>
#include <etna/tensor/quant/internal/fit.h>

// Blocks of 32 with one f16 scale d, and in Q4_1 and Q5_1 an f16 minimum m:
//   Q8_0  d, 32 x i8                       q * d
//   Q4_0  d, 16 bytes of two codes         (q - 8) * d
//   Q4_1  d, m, 16 bytes                   q * d + m
//   Q5_0  d, 32 fifth bits, 16 bytes       (q - 16) * d
//   Q5_1  d, m, 32 fifth bits, 16 bytes    q * d + m
// Byte j has the low four bits of element j in its low half, and of element j + 16 in its high half.
namespace etna::quant {
namespace {

constexpr int kBlock32FormatsBlock = 32, kBlock32FormatsHalf = 16;
constexpr int kBytesQ8_0 = 34, kBytesQ4_0 = 18, kBytesQ4_1 = 20, kBytesQ5_0 = 22, kBytesQ5_1 = 24;

void decode_one_q8_0(const std::byte* block, float* out) {
  const float d = load_half(block);
  for (int i = 0; i < kBlock32FormatsBlock; ++i) out[i] = static_cast<float>(load<std::int8_t>(block + 2 + i)) * d;
}

/// Codes of four bits, and a fifth where `Fifth` is true, of which the value is code - Zero. They are copied first: as
/// far as the compiler knows, `out` may be the block, and loops over both would not vectorize.
template <bool Fifth, int Zero>
void decode_codes(const std::byte* fifth, const std::byte* codes, float* out) {
  std::uint8_t bytes[kBlock32FormatsHalf];
  std::memcpy(bytes, codes, kBlock32FormatsHalf);
  const std::uint32_t high = Fifth ? load<std::uint32_t>(fifth) : 0;
  for (int j = 0; j < kBlock32FormatsHalf; ++j) {
    const int bit = Fifth ? static_cast<int>((high >> j & 1u) << 4) : 0;
    out[j] = static_cast<float>(((bytes[j] & 0xf) | bit) - Zero);
  }
  for (int j = 0; j < kBlock32FormatsHalf; ++j) {
    const int bit = Fifth ? static_cast<int>((high >> (j + kBlock32FormatsHalf) & 1u) << 4) : 0;
    out[j + kBlock32FormatsHalf] = static_cast<float>(((bytes[j] >> 4) | bit) - Zero);
  }
}

template <bool Fifth>
void decode_symmetric(const std::byte* block, float* out) {
  const float d = load_half(block);
  float values[kBlock32FormatsBlock];
  decode_codes<Fifth, Fifth ? 16 : 8>(block + 2, block + (Fifth ? 6 : 2), values);
  for (int i = 0; i < kBlock32FormatsBlock; ++i) out[i] = values[i] * d;
}

template <bool Fifth>
void decode_affine(const std::byte* block, float* out) {
  const float d = load_half(block), m = load_half(block + 2);
  float values[kBlock32FormatsBlock];
  decode_codes<Fifth, 0>(block + 4, block + (Fifth ? 8 : 4), values);
  for (int i = 0; i < kBlock32FormatsBlock; ++i) out[i] = values[i] * d + m;
}

/// Packs codes, each 0 or more.
template <bool Fifth>
void pack_codes(const unsigned* codes, std::byte* fifth, std::byte* bytes) {
  std::uint32_t high = 0;
  for (int j = 0; j < kBlock32FormatsHalf; ++j) {
    bytes[j] = to_byte((codes[j] & 0xfu) | (codes[j + kBlock32FormatsHalf] & 0xfu) << 4);
    high |= (codes[j] >> 4 & 1u) << j | (codes[j + kBlock32FormatsHalf] >> 4 & 1u) << (j + 16);
  }
  if (Fifth) store(fifth, high);
}

void encode_one_q8_0(const float* x, const float* w, std::byte* block) {
  using Codes = WholeCodes<-127, 127>;
  const float d = fit_half_scale<Codes, kBlock32FormatsBlock>(x, w), inverse = d != 0.0f ? 1.0f / d : 0.0f;
  store_half(block, d);
  for (int i = 0; i < kBlock32FormatsBlock; ++i)
    store(block + 2 + i, static_cast<std::int8_t>(Codes::round(x[i] * inverse)));
}

template <bool Fifth>
void encode_symmetric(const float* x, const float* w, std::byte* block) {
  constexpr int kZero = Fifth ? 16 : 8;
  using Codes = WholeCodes<-kZero, kZero - 1>;
  const float d = fit_half_scale<Codes, kBlock32FormatsBlock>(x, w), inverse = d != 0.0f ? 1.0f / d : 0.0f;
  unsigned codes[kBlock32FormatsBlock];
  for (int i = 0; i < kBlock32FormatsBlock; ++i)
    codes[i] = static_cast<unsigned>(static_cast<int>(Codes::round(x[i] * inverse)) + kZero);
  store_half(block, d);
  pack_codes<Fifth>(codes, block + 2, block + (Fifth ? 6 : 2));
}

template <bool Fifth>
void encode_affine(const float* x, const float* w, std::byte* block) {
  constexpr int kLast = Fifth ? 31 : 15;
  const Affine found = fit_affine<kLast, kBlock32FormatsBlock>(x, w, false);
  Affine best{to_half(found.d), to_half(found.m)};
  float best_error = affine_error<kLast, kBlock32FormatsBlock>(x, w, best);
  // Rounding m to f16 may move it by more than d; another d then suits better, or the f16 on the other side.
  const float nudge = std::abs(found.m) * 0x1p-11f;
  for (const float m : {best.m, to_half(found.m - nudge), to_half(found.m + nudge)}) {
    Affine fit{found.d, m};
    for (int round = 0; round < 2; ++round) {
      float xq = 0.0f, qq = 0.0f;
      const float inverse = fit.d != 0.0f ? 1.0f / fit.d : 0.0f;
      for (int i = 0; i < kBlock32FormatsBlock; ++i) {
        const float q = WholeCodes<0, kLast>::round((x[i] - m) * inverse);
        xq += w[i] * q * (x[i] - m);
        qq += w[i] * q * q;
      }
      if (qq > 0.0f && xq > 0.0f) fit.d = to_half(xq / qq);
      const Affine rounded{to_half(fit.d), m};
      const float error = affine_error<kLast, kBlock32FormatsBlock>(x, w, rounded);
      if (error < best_error) {
        best_error = error;
        best = rounded;
      }
    }
  }
  const float inverse = best.d != 0.0f ? 1.0f / best.d : 0.0f;
  unsigned codes[kBlock32FormatsBlock];
  for (int i = 0; i < kBlock32FormatsBlock; ++i)
    codes[i] = static_cast<unsigned>(WholeCodes<0, kLast>::round((x[i] - best.m) * inverse));
  store_half(block, best.d);
  store_half(block + 2, best.m);
  pack_codes<Fifth>(codes, block + 4, block + (Fifth ? 8 : 4));
}

}  // namespace

void decode_q8_0(const std::byte* blocks, float* out, std::int64_t count) {
  decode_blocks<decode_one_q8_0, kBlock32FormatsBlock, kBytesQ8_0>(blocks, out, count);
}
void decode_q4_0(const std::byte* blocks, float* out, std::int64_t count) {
  decode_blocks<decode_symmetric<false>, kBlock32FormatsBlock, kBytesQ4_0>(blocks, out, count);
}
void decode_q4_1(const std::byte* blocks, float* out, std::int64_t count) {
  decode_blocks<decode_affine<false>, kBlock32FormatsBlock, kBytesQ4_1>(blocks, out, count);
}
void decode_q5_0(const std::byte* blocks, float* out, std::int64_t count) {
  decode_blocks<decode_symmetric<true>, kBlock32FormatsBlock, kBytesQ5_0>(blocks, out, count);
}
void decode_q5_1(const std::byte* blocks, float* out, std::int64_t count) {
  decode_blocks<decode_affine<true>, kBlock32FormatsBlock, kBytesQ5_1>(blocks, out, count);
}

void encode_q8_0(const float* x, const float* w, std::byte* blocks, std::int64_t count) {
  encode_blocks<encode_one_q8_0, kBlock32FormatsBlock, kBytesQ8_0>(x, w, blocks, count);
}
void encode_q4_0(const float* x, const float* w, std::byte* blocks, std::int64_t count) {
  encode_blocks<encode_symmetric<false>, kBlock32FormatsBlock, kBytesQ4_0>(x, w, blocks, count);
}
void encode_q4_1(const float* x, const float* w, std::byte* blocks, std::int64_t count) {
  encode_blocks<encode_affine<false>, kBlock32FormatsBlock, kBytesQ4_1>(x, w, blocks, count);
}
void encode_q5_0(const float* x, const float* w, std::byte* blocks, std::int64_t count) {
  encode_blocks<encode_symmetric<true>, kBlock32FormatsBlock, kBytesQ5_0>(x, w, blocks, count);
}
void encode_q5_1(const float* x, const float* w, std::byte* blocks, std::int64_t count) {
  encode_blocks<encode_affine<true>, kBlock32FormatsBlock, kBytesQ5_1>(x, w, blocks, count);
}

}  // namespace etna::quant
