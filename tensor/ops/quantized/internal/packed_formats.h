#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include <etna/tensor/ops/quantized/internal/row_kernels.h>

/// Block formats as products take them: a group of 256 elements of a row becomes codes of 8 bits without a sign, and
/// for each 16 of them a scale and a minimum, of which a value is scale · code - minimum. Internal.
///
/// Each format is a type with kElements and kBytes of a block, scales() and codes(). A group is 256 / kElements blocks.
/// Everything is forced inline, so that it is compiled for the instruction set of the function that calls it.
#define ETNA_INLINE inline __attribute__((always_inline))

namespace etna::quantized {

inline constexpr int kGroup = 256, kSubs = 16;

ETNA_INLINE float half_of(std::uint16_t bits) {
  const std::uint32_t magnitude = bits & 0x7fffu;
  const float value = std::bit_cast<float>(magnitude << 13) * 0x1p112f;
  const std::uint32_t top = magnitude >= 0x7c00u ? 0x7f800000u : 0u;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) | top |
                              static_cast<std::uint32_t>(bits & 0x8000u) << 16);
}
ETNA_INLINE float half_at(const std::byte* at) {
  std::uint16_t bits;
  std::memcpy(&bits, at, 2);
  return half_of(bits);
}
ETNA_INLINE std::uint8_t u8_at(const std::byte* at, int i) { return static_cast<std::uint8_t>(at[i]); }

/// Eight blocks of 32 elements with one scale each.
template <int Bytes, int Zero>
struct Symmetric32 {
  static constexpr int kElements = 32, kBytes = Bytes;
  static ETNA_INLINE void scales(const std::byte* b, float* s, float* m) {
    for (int i = 0; i < 8; ++i) {
      const float d = half_at(b + i * Bytes);
      s[2 * i] = s[2 * i + 1] = d;
      m[2 * i] = m[2 * i + 1] = d * static_cast<float>(Zero);
    }
  }
};

/// The codes of 16 bytes: low halves first.
ETNA_INLINE void nibbles(const std::byte* from, std::uint8_t* to) {
  std::uint8_t bytes[16];
  std::memcpy(bytes, from, 16);
  for (int i = 0; i < 16; ++i) to[i] = bytes[i] & 0xf;
  for (int i = 0; i < 16; ++i) to[i + 16] = bytes[i] >> 4;
}
/// Fifth bits on top of codes.
ETNA_INLINE void add_fifth(const std::byte* from, std::uint8_t* to) {
  std::uint32_t bits;
  std::memcpy(&bits, from, 4);
  for (int i = 0; i < 32; ++i) to[i] = static_cast<std::uint8_t>(to[i] | (bits >> i & 1u) << 4);
}

struct Q8_0 : Symmetric32<34, 128> {
  static ETNA_INLINE void codes(const std::byte* b, std::uint8_t* to) {
    for (int k = 0; k < 8; ++k)
      for (int i = 0; i < 32; ++i) to[32 * k + i] = static_cast<std::uint8_t>(u8_at(b, 34 * k + 2 + i) ^ 0x80u);
  }
};
struct Q4_0 : Symmetric32<18, 8> {
  static ETNA_INLINE void codes(const std::byte* b, std::uint8_t* to) {
    for (int k = 0; k < 8; ++k) nibbles(b + 18 * k + 2, to + 32 * k);
  }
};
struct Q5_0 : Symmetric32<22, 16> {
  static ETNA_INLINE void codes(const std::byte* b, std::uint8_t* to) {
    for (int k = 0; k < 8; ++k) {
      nibbles(b + 22 * k + 6, to + 32 * k);
      add_fifth(b + 22 * k + 2, to + 32 * k);
    }
  }
};

template <int Bytes>
struct Affine32 {
  static constexpr int kElements = 32, kBytes = Bytes;
  static ETNA_INLINE void scales(const std::byte* b, float* s, float* m) {
    for (int i = 0; i < 8; ++i) {
      s[2 * i] = s[2 * i + 1] = half_at(b + i * Bytes);
      m[2 * i] = m[2 * i + 1] = -half_at(b + i * Bytes + 2);
    }
  }
};
struct Q4_1 : Affine32<20> {
  static ETNA_INLINE void codes(const std::byte* b, std::uint8_t* to) {
    for (int k = 0; k < 8; ++k) nibbles(b + 20 * k + 4, to + 32 * k);
  }
};
struct Q5_1 : Affine32<24> {
  static ETNA_INLINE void codes(const std::byte* b, std::uint8_t* to) {
    for (int k = 0; k < 8; ++k) {
      nibbles(b + 24 * k + 8, to + 32 * k);
      add_fifth(b + 24 * k + 4, to + 32 * k);
    }
  }
};

/// Codes of two bits: four runs of 32 elements from 32 bytes. @param first shift of the first run, `step` between them
ETNA_INLINE void pairs_of_bits(const std::byte* from, int first, int step, std::uint8_t* to) {
  std::uint8_t bytes[32];
  std::memcpy(bytes, from, 32);
  for (int q = 0; q < 4; ++q)
    for (int i = 0; i < 32; ++i) to[32 * q + i] = bytes[i] >> (first + step * q) & 3;
}

struct Q2_K {
  static constexpr int kElements = 256, kBytes = 84;
  static ETNA_INLINE void scales(const std::byte* b, float* s, float* m) {
    const float d = half_at(b + 80), least = half_at(b + 82);
    std::uint8_t packed[16];
    std::memcpy(packed, b, 16);
    for (int i = 0; i < 16; ++i) s[i] = d * static_cast<float>(packed[i] & 0xf);
    for (int i = 0; i < 16; ++i) m[i] = least * static_cast<float>(packed[i] >> 4);
  }
  static ETNA_INLINE void codes(const std::byte* b, std::uint8_t* to) {
    for (int h = 0; h < 2; ++h) pairs_of_bits(b + 16 + 32 * h, 0, 2, to + 128 * h);
  }
};

struct Q3_K {
  static constexpr int kElements = 256, kBytes = 110;
  /// Sixteen scales of six bits in 12 bytes: low halves in the first eight, pairs of high bits in the last four.
  static ETNA_INLINE void scales(const std::byte* b, float* s, float* m) {
    const float d = half_at(b + 108);
    std::uint8_t packed[12], six[16];
    std::memcpy(packed, b + 96, 12);
    for (int i = 0; i < 8; ++i) six[i] = packed[i] & 0xf;
    for (int i = 0; i < 8; ++i) six[i + 8] = packed[i] >> 4;
    for (int i = 0; i < 16; ++i)
      six[i] = static_cast<std::uint8_t>(six[i] | (packed[8 + i % 4] >> (2 * (i / 4)) & 3) << 4);
    for (int i = 0; i < 16; ++i) s[i] = d * static_cast<float>(static_cast<int>(six[i]) - 32);
    for (int i = 0; i < 16; ++i) m[i] = 4 * s[i];
  }
  static ETNA_INLINE void codes(const std::byte* b, std::uint8_t* to) {
    std::uint8_t third[32];
    std::memcpy(third, b, 32);
    for (int h = 0; h < 2; ++h) pairs_of_bits(b + 32 + 32 * h, 0, 2, to + 128 * h);
    for (int q = 0; q < 8; ++q)
      for (int i = 0; i < 32; ++i)
        to[32 * q + i] = static_cast<std::uint8_t>(to[32 * q + i] + ((third[i] >> q & 1) << 2));
  }
};

/// Eight scales and minimums of six bits in 12 bytes.
ETNA_INLINE void six_bits(const std::byte* from, std::uint8_t* scale, std::uint8_t* minimum) {
  std::uint32_t a, b, c;
  std::memcpy(&a, from, 4);
  std::memcpy(&b, from + 4, 4);
  std::memcpy(&c, from + 8, 4);
  const std::uint32_t low = a & 0x3f3f3f3fu, high = (c & 0x0f0f0f0fu) | (a >> 6 & 0x03030303u) << 4;
  const std::uint32_t low_minimum = b & 0x3f3f3f3fu, high_minimum = (c >> 4 & 0x0f0f0f0fu) | (b >> 6 & 0x03030303u)
                                                                                                 << 4;
  std::memcpy(scale, &low, 4);
  std::memcpy(scale + 4, &high, 4);
  std::memcpy(minimum, &low_minimum, 4);
  std::memcpy(minimum + 4, &high_minimum, 4);
}
ETNA_INLINE void affine_scales(const std::byte* b, float* s, float* m) {
  const float d = half_at(b), least = half_at(b + 2);
  std::uint8_t scale[8], minimum[8];
  six_bits(b + 4, scale, minimum);
  for (int i = 0; i < 16; ++i) s[i] = d * static_cast<float>(scale[i / 2]);
  for (int i = 0; i < 16; ++i) m[i] = least * static_cast<float>(minimum[i / 2]);
}

struct Q4_K {
  static constexpr int kElements = 256, kBytes = 144;
  static ETNA_INLINE void scales(const std::byte* b, float* s, float* m) { affine_scales(b, s, m); }
  static ETNA_INLINE void codes(const std::byte* b, std::uint8_t* to) {
    std::uint8_t bytes[128];
    std::memcpy(bytes, b + 16, 128);
    for (int j = 0; j < 4; ++j) {
      for (int i = 0; i < 32; ++i) to[64 * j + i] = bytes[32 * j + i] & 0xf;
      for (int i = 0; i < 32; ++i) to[64 * j + 32 + i] = bytes[32 * j + i] >> 4;
    }
  }
};
struct Q5_K {
  static constexpr int kElements = 256, kBytes = 176;
  static ETNA_INLINE void scales(const std::byte* b, float* s, float* m) { affine_scales(b, s, m); }
  static ETNA_INLINE void codes(const std::byte* b, std::uint8_t* to) {
    Q4_K::codes(b + 32, to);
    std::uint8_t fifth[32];
    std::memcpy(fifth, b + 16, 32);
    for (int q = 0; q < 8; ++q)
      for (int i = 0; i < 32; ++i)
        to[32 * q + i] = static_cast<std::uint8_t>(to[32 * q + i] + ((fifth[i] >> q & 1) << 4));
  }
};

struct Q6_K {
  static constexpr int kElements = 256, kBytes = 210;
  static ETNA_INLINE void scales(const std::byte* b, float* s, float* m) {
    const float d = half_at(b + 208);
    std::int8_t packed[16];
    std::memcpy(packed, b + 192, 16);
    for (int i = 0; i < 16; ++i) s[i] = d * static_cast<float>(packed[i]);
    for (int i = 0; i < 16; ++i) m[i] = 32 * s[i];
  }
  static ETNA_INLINE void codes(const std::byte* b, std::uint8_t* to) {
    std::uint8_t low[128], high[64];
    std::memcpy(low, b, 128);
    std::memcpy(high, b + 128, 64);
    for (int h = 0; h < 2; ++h) {
      for (int q = 0; q < 4; ++q) {
        for (int i = 0; i < 32; ++i) {
          const int four = low[64 * h + 32 * (q % 2) + i] >> (4 * (q / 2)) & 0xf;
          to[128 * h + 32 * q + i] = static_cast<std::uint8_t>(four | (high[32 * h + i] >> (2 * q) & 3) << 4);
        }
      }
    }
  }
};

/// The levels of IQ4_NL plus 127, and those of MXFP4 plus 12.
alignas(16) inline constexpr std::uint8_t kLevels[16] = {0,   23,  44,  62,  78,  92,  105, 117,
                                                         128, 140, 152, 165, 180, 196, 216, 240};
alignas(16) inline constexpr std::uint8_t kMicroLevels[16] = {12, 13, 14, 15, 16, 18, 20, 24,
                                                              12, 11, 10, 9,  8,  6,  4,  0};

struct IQ4_NL : Symmetric32<18, 127> {
  static ETNA_INLINE void codes(const std::byte* b, std::uint8_t* to) {
    Q4_0::codes(b, to);
    for (int i = 0; i < kGroup; ++i) to[i] = kLevels[to[i]];
  }
};
struct IQ4_XS {
  static constexpr int kElements = 256, kBytes = 136;
  static ETNA_INLINE void scales(const std::byte* b, float* s, float* m) {
    const float d = half_at(b);
    std::uint16_t high;
    std::memcpy(&high, b + 2, 2);
    for (int i = 0; i < 8; ++i) {
      const int six = (u8_at(b, 4 + i / 2) >> (4 * (i % 2)) & 0xf) | (high >> (2 * i) & 3) << 4;
      s[2 * i] = s[2 * i + 1] = d * static_cast<float>(six - 32);
    }
    for (int i = 0; i < 16; ++i) m[i] = 127 * s[i];
  }
  static ETNA_INLINE void codes(const std::byte* b, std::uint8_t* to) {
    for (int k = 0; k < 8; ++k) nibbles(b + 8 + 16 * k, to + 32 * k);
    for (int i = 0; i < kGroup; ++i) to[i] = kLevels[to[i]];
  }
};
/// The exponents of eight blocks. (Stored one by one and loaded together, they would have to reach the cache first.)
ETNA_INLINE std::uint64_t micro_exponents(const std::byte* b) {
  std::uint64_t all = 0;
  for (int i = 0; i < 8; ++i) all |= static_cast<std::uint64_t>(b[17 * i]) << (8 * i);
  return all;
}
struct MXFP4 {
  static constexpr int kElements = 32, kBytes = 17;
  static ETNA_INLINE void scales(const std::byte* b, float* s, float* m) {
    for (int i = 0; i < 8; ++i) {
      // Half of 2^(e - 127), since the levels are doubled; the smallest two are subnormal.
      const std::uint32_t e = u8_at(b, 17 * i);
      const float d = std::bit_cast<float>(e < 2 ? 0x200000u << e : (e - 1) << 23);
      s[2 * i] = s[2 * i + 1] = d;
      m[2 * i] = m[2 * i + 1] = 12 * d;
    }
  }
  static ETNA_INLINE void codes(const std::byte* b, std::uint8_t* to) {
    for (int k = 0; k < 8; ++k) nibbles(b + 17 * k + 1, to + 32 * k);
    for (int i = 0; i < kGroup; ++i) to[i] = kMicroLevels[to[i]];
  }
};

/// One scale for all; a code is 1 more than its value.
template <int At>
struct Ternary {
  static ETNA_INLINE void scales(const std::byte* b, float* s, float* m) {
    const float d = half_at(b + At);
    for (int i = 0; i < 16; ++i) s[i] = m[i] = d;
  }
};
struct TQ2_0 : Ternary<64> {
  static constexpr int kElements = 256, kBytes = 66;
  static ETNA_INLINE void codes(const std::byte* b, std::uint8_t* to) {
    for (int h = 0; h < 2; ++h) pairs_of_bits(b + 32 * h, 0, 2, to + 128 * h);
  }
};
struct TQ1_0 : Ternary<52> {
  static constexpr int kElements = 256, kBytes = 54;
  template <int Bytes, int Digits>
  static ETNA_INLINE void digits(const std::byte* from, std::uint8_t* to) {
    std::uint8_t bytes[Bytes];
    std::memcpy(bytes, from, Bytes);
    // A byte is the fraction 0.code code code ... in base 3, times 256.
    int power = 1;
    for (int digit = 0; digit < Digits; ++digit, power *= 3) {
      for (int i = 0; i < Bytes; ++i)
        to[digit * Bytes + i] = static_cast<std::uint8_t>((bytes[i] * power & 0xff) * 3 >> 8);
    }
  }
  static ETNA_INLINE void codes(const std::byte* b, std::uint8_t* to) {
    digits<32, 5>(b, to);
    digits<16, 5>(b + 32, to + 160);
    digits<4, 4>(b + 48, to + 240);
  }
};
/// Its scale is one for the whole tensor, and multiplied afterwards.
struct I2_S {
  static constexpr int kElements = 128, kBytes = 32;
  static ETNA_INLINE void scales(const std::byte*, float* s, float* m) {
    for (int i = 0; i < 16; ++i) s[i] = m[i] = 1;
  }
  static ETNA_INLINE void codes(const std::byte* b, std::uint8_t* to) {
    for (int h = 0; h < 2; ++h) pairs_of_bits(b + 32 * h, 6, -2, to + 128 * h);
  }
};
/// Integers in groups (tensor/quant/internal/integer_formats.h). A run is 32 elements.
template <int Bits, int Elements, bool ZeroPoint>
struct Integers {
  static constexpr int kBits = Bits, kElements = Elements, kHead = ZeroPoint ? 4 : 2;
  static constexpr int kBytes = kHead + Elements * Bits / 8;
  static constexpr bool kZeroPoint = ZeroPoint;
  /// Where a run's block and its codes are in a group.
  static constexpr int block(int run) { return 32 * run / Elements * kBytes; }
  static constexpr int codes_at(int run) { return block(run) + kHead + 32 * run % Elements * Bits / 8; }

  static ETNA_INLINE void scales(const std::byte* b, float* s, float* m) {
    for (int run = 0; run < 8; ++run) {
      const float d = half_at(b + block(run)), zero = Bits == 8 ? 128.0f : ZeroPoint ? 0.0f : 8.0f;
      s[2 * run] = s[2 * run + 1] = d;
      m[2 * run] = m[2 * run + 1] = d * (ZeroPoint ? half_at(b + block(run) + 2) + zero : zero);
    }
  }
  static ETNA_INLINE void codes(const std::byte* b, std::uint8_t* to) {
    for (int run = 0; run < 8; ++run) {
      if constexpr (Bits == 4) {
        nibbles(b + codes_at(run), to + 32 * run);
      } else {
        for (int i = 0; i < 32; ++i) to[32 * run + i] = static_cast<std::uint8_t>(u8_at(b, codes_at(run) + i) ^ 0x80u);
      }
    }
  }
};
using INT8_64 = Integers<8, 64, false>;
using INT8_128 = Integers<8, 128, false>;
using INT8_ZP_32 = Integers<8, 32, true>;
using INT8_ZP_64 = Integers<8, 64, true>;
using INT8_ZP_128 = Integers<8, 128, true>;
using INT4_64 = Integers<4, 64, false>;
using INT4_128 = Integers<4, 128, false>;
using INT4_ZP_32 = Integers<4, 32, true>;
using INT4_ZP_64 = Integers<4, 64, true>;
using INT4_ZP_128 = Integers<4, 128, true>;

template <typename F>
inline constexpr bool kIntegers = false;
template <int Bits, int Elements, bool ZeroPoint>
inline constexpr bool kIntegers<Integers<Bits, Elements, ZeroPoint>> = true;

/// ETNA_PACKED_FORMATS(X) is X(format) for each.
#define ETNA_PACKED_FORMATS(X) \
  X(Q8_0)                      \
  X(Q4_0)                      \
  X(Q4_1)                      \
  X(Q5_0)                      \
  X(Q5_1)                      \
  X(Q2_K)                      \
  X(Q3_K)                      \
  X(Q4_K)                      \
  X(Q5_K)                      \
  X(Q6_K)                      \
  X(IQ4_NL)                    \
  X(IQ4_XS)                    \
  X(MXFP4)                     \
  X(TQ1_0)                     \
  X(TQ2_0)                     \
  X(I2_S)                      \
  X(INT8_64)                   \
  X(INT8_128)                  \
  X(INT8_ZP_32)                \
  X(INT8_ZP_64)                \
  X(INT8_ZP_128)               \
  X(INT4_64)                   \
  X(INT4_128)                  \
  X(INT4_ZP_32)                \
  X(INT4_ZP_64)                \
  X(INT4_ZP_128)

/// The rest of a row that ends within a group, filled up with zeros.
template <typename F>
struct Padded {
  ETNA_INLINE Padded(const std::byte* from, std::int64_t elements) {
    const auto size = static_cast<std::size_t>(elements / F::kElements * F::kBytes);
    std::memcpy(bytes, from, std::min(size, sizeof bytes));
  }
  std::byte bytes[kGroup / F::kElements * F::kBytes] = {};
};

/// Plain numbers, as their bits.
struct F16 {
  std::uint16_t bits;
};
struct BF16 {
  std::uint16_t bits;
};
ETNA_INLINE float value(float x) { return x; }
ETNA_INLINE float value(BF16 x) { return std::bit_cast<float>(static_cast<std::uint32_t>(x.bits) << 16); }
ETNA_INLINE float value(F16 x) { return half_of(x.bits); }

template <typename F>
ETNA_INLINE void widen_by_loops(const std::byte* b, float* out) {
  alignas(64) float scales[kSubs], minimums[kSubs];
  alignas(64) std::uint8_t codes[kGroup];
  F::scales(b, scales, minimums);
  F::codes(b, codes);
  for (int s = 0; s < kSubs; ++s) {
    const float scale = scales[s], minimum = minimums[s];
    for (int i = 0; i < 16; ++i) out[16 * s + i] = scale * static_cast<float>(codes[16 * s + i]) - minimum;
  }
}

/// 32 values to nearest even; NaN stays NaN.
ETNA_INLINE void narrow_by_loops(const float* x, std::uint16_t* y) {
  for (int i = 0; i < 32; ++i) {
    const std::uint32_t u = std::bit_cast<std::uint32_t>(x[i]);
    const std::uint32_t rounded = u + 0x7fffu + (u >> 16 & 1u), quiet = u | 0x400000u;
    y[i] = static_cast<std::uint16_t>(((u & 0x7fffffffu) > 0x7f800000u ? quiet : rounded) >> 16);
  }
}

}  // namespace etna::quantized
