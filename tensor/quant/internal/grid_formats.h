#pragma once

#include <etna/tensor/quant/internal/grid_tables.h>
#include <etna/tensor/quant/internal/scales.h>

/// Formats whose quants are points of a grid: eight or four elements at a time are one index into a table of points,
/// which were chosen for weights. Blocks of 256, which are decoded, not encoded. An index has the bits of its table, so
/// that no block can reach past it. Internal.
///   IQ2_XXS  66 bytes: f16 d; for each 32: four indices of 8 bits, then signs of 7 bits and s of 4
///   IQ2_XS   74: f16 d; for each 8 an index of 9 bits and signs of 7; for each 16 s of 4 bits
///   IQ2_S    82: f16 d; indices' low bytes, signs of 8 bits, indices' 2 high bits, s of 4 bits for each 16
///   IQ3_XXS  98: f16 d; for each 4 an index of 8 bits; for each 32 signs of 7 bits and s of 4
///   IQ3_S    110: f16 d; indices' low bytes, their 9th bits, signs of 8 bits, s of 4 bits for each 32
///   IQ1_S    50: f16 d; indices' low bytes; for each 32 their 3 high bits, s of 3 bits, the sign of 1/8
///   IQ1_M    56: indices' low bytes; for each 8 their 3 high bits and the sign of 1/8; s of 3 bits for each 16, with
///            the four parts of d between them
/// A value is d · (s + 1/2) / 4 · point of IQ2, d · (s + 1/2) / 2 · point of IQ3_XXS, d · (2 s + 1) · point of IQ3_S,
/// and d · (2 s + 1) · (point ± 1/8) of IQ1. The eighth of seven signs makes their number even. Products of these few
/// bits are exact in f32, in any order.
namespace etna::quant {

/// A magnitude for each element of a run, a byte each, and a bit for each that is negative; if the format has no
/// kSigns, the quants themselves.
struct RunOfPoints {
  std::uint64_t eights[4] = {};
  std::uint32_t negative = 0;
};

/// Four times eight signs from four times seven in the low bits of each byte: the last makes their number even.
ETNA_INLINE std::uint32_t even_signs(std::uint32_t sevens) {
  std::uint32_t odd = sevens ^ sevens >> 4;
  odd ^= odd >> 2;
  odd ^= odd >> 1;
  return sevens | (odd & 0x01010101u) << 7;
}
/// The same from 28 adjacent bits, which the highest four do not belong to.
ETNA_INLINE std::uint32_t even_signs_of_28(std::uint32_t bits) {
  return even_signs((bits & 0x7fu) | (bits & 0x3f80u) << 1 | (bits & 0x1fc000u) << 2 | (bits & 0xfe00000u) << 3);
}
ETNA_INLINE std::uint32_t byte_of(const std::byte* b, int at) { return std::to_integer<std::uint32_t>(b[at]); }

/// What the formats have in common. @tparam Largest the largest magnitude
template <int Largest>
struct PointsOf {
  static constexpr Packing kPacking = Packing::points;
  static constexpr bool kMinimums = false, kSigns = true;
  static constexpr int kZero = Largest, kLast = 2 * Largest;
  static constexpr F16Fields kF16 = {0, -1};
};

/// unit · (2 s + 1), for eight s in a byte each.
template <class V>
ETNA_INLINE F8 odd_multiples(std::uint64_t s, const F8& unit) {
  return __builtin_convertvector(2 * V::ints(s) + 1, F8) * unit;
}
/// The same for sixteen s of four bits.
template <class V>
ETNA_INLINE ScalesPer16 odd_multiples_of_nibbles(const std::byte* s, const F8& unit) {
  return {odd_multiples<V>(spread_nibbles(bits_at<std::uint32_t>(s)), unit),
          odd_multiples<V>(spread_nibbles(bits_at<std::uint32_t>(s + 4)), unit)};
}
/// The upper four bits of eight bytes, a byte each.
template <int Step>
ETNA_INLINE std::uint64_t upper_nibbles(const std::byte* from) {
  std::uint64_t all = 0;
  for (int run = 0; run < 8; ++run) all |= static_cast<std::uint64_t>(byte_of(from, Step * run) >> 4) << (8 * run);
  return all;
}

struct IQ2_XXS : Block<256, 66>, PointsOf<43> {
  static constexpr Description kDescription = {"IQ2_XXS", 16, 19, 0,
                                               "f16 scale, 8 sub-blocks: 4-bit scales, indices of points and signs"};
  static ETNA_INLINE RunOfPoints points(const std::byte* b, int run) {
    const std::byte* own = b + 2 + 8 * run;
    RunOfPoints p;
    for (int i = 0; i < 4; ++i) p.eights[i] = kGridPoints.iq2_xxs[byte_of(own, i)];
    p.negative = even_signs_of_28(bits_at<std::uint32_t>(own + 4));
    return p;
  }
  static constexpr ScaleKind kScaleKind = ScaleKind::floats_per_32;
  template <class V>
  static ETNA_INLINE RunScales scales(const std::byte* b) {
    return {odd_multiples<V>(upper_nibbles<8>(b + 9), V::f16_everywhere(b) * 0.125f)};
  }
};

struct IQ2_XS : Block<256, 74>, PointsOf<43> {
  static constexpr Description kDescription = {"IQ2_XS", 17, 20, 0,
                                               "f16 scale, 16 sub-blocks: 4-bit scales, indices of points and signs"};
  static ETNA_INLINE RunOfPoints points(const std::byte* b, int run) {
    RunOfPoints p;
    std::uint32_t sevens = 0;
    for (int i = 0; i < 4; ++i) {
      const std::uint32_t both = bits_at<std::uint16_t>(b + 2 + 8 * run + 2 * i);
      p.eights[i] = kGridPoints.iq2_xs[both & 511u];
      sevens |= both >> 9 << 8 * i;
    }
    p.negative = even_signs(sevens);
    return p;
  }
  static constexpr ScaleKind kScaleKind = ScaleKind::floats_per_16;
  template <class V>
  static ETNA_INLINE ScalesPer16 scales_per_16(const std::byte* b) {
    return odd_multiples_of_nibbles<V>(b + 66, V::f16_everywhere(b) * 0.125f);
  }
};

struct IQ2_S : Block<256, 82>, PointsOf<43> {
  static constexpr Description kDescription = {"IQ2_S", 22, 28, 0,
                                               "f16 scale, 16 sub-blocks: 4-bit scales, indices of points and signs"};
  static ETNA_INLINE RunOfPoints points(const std::byte* b, int run) {
    RunOfPoints p;
    const std::uint32_t high = byte_of(b, 66 + run);
    for (int i = 0; i < 4; ++i)
      p.eights[i] = kGridPoints.iq2_s[byte_of(b, 2 + 4 * run + i) | (high >> 2 * i & 3u) << 8];
    p.negative = bits_at<std::uint32_t>(b + 34 + 4 * run);
    return p;
  }
  static constexpr ScaleKind kScaleKind = ScaleKind::floats_per_16;
  template <class V>
  static ETNA_INLINE ScalesPer16 scales_per_16(const std::byte* b) {
    return odd_multiples_of_nibbles<V>(b + 74, V::f16_everywhere(b) * 0.125f);
  }
};

/// Two points of four coordinates.
ETNA_INLINE std::uint64_t two_quads(std::uint32_t first, std::uint32_t second) {
  return first | static_cast<std::uint64_t>(second) << 32;
}

struct IQ3_XXS : Block<256, 98>, PointsOf<62> {
  static constexpr Description kDescription = {"IQ3_XXS", 18, 23, 0,
                                               "f16 scale, 8 sub-blocks: 4-bit scales, indices of points and signs"};
  static ETNA_INLINE RunOfPoints points(const std::byte* b, int run) {
    const std::byte* own = b + 2 + 8 * run;
    RunOfPoints p;
    for (int i = 0; i < 4; ++i)
      p.eights[i] = two_quads(kGridPoints.iq3_xxs[byte_of(own, 2 * i)], kGridPoints.iq3_xxs[byte_of(own, 2 * i + 1)]);
    p.negative = even_signs_of_28(bits_at<std::uint32_t>(b + 66 + 4 * run));
    return p;
  }
  static constexpr ScaleKind kScaleKind = ScaleKind::floats_per_32;
  template <class V>
  static ETNA_INLINE RunScales scales(const std::byte* b) {
    return {odd_multiples<V>(upper_nibbles<4>(b + 69), V::f16_everywhere(b) * 0.25f)};
  }
};

struct IQ3_S : Block<256, 110>, PointsOf<15> {
  static constexpr Description kDescription = {"IQ3_S", 21, 26, 0,
                                               "f16 scale, 8 sub-blocks: 4-bit scales, indices of points and signs"};
  static ETNA_INLINE RunOfPoints points(const std::byte* b, int run) {
    RunOfPoints p;
    const std::uint32_t ninth = byte_of(b, 66 + run);
    const auto quad = [&](int i) ETNA_INLINE_LAMBDA {
      return kGridPoints.iq3_s[byte_of(b, 2 + 8 * run + i) | (ninth >> i & 1u) << 8];
    };
    for (int i = 0; i < 4; ++i) p.eights[i] = two_quads(quad(2 * i), quad(2 * i + 1));
    p.negative = bits_at<std::uint32_t>(b + 74 + 4 * run);
    return p;
  }
  static constexpr ScaleKind kScaleKind = ScaleKind::floats_per_32;
  template <class V>
  static ETNA_INLINE RunScales scales(const std::byte* b) {
    return {odd_multiples<V>(spread_nibbles(bits_at<std::uint32_t>(b + 106)), V::f16_everywhere(b))};
  }
};

/// Quants of IQ1 are 8 · (coordinate ± 1/8) + 9.
struct PointsOf1 : PointsOf<9> {
  static constexpr bool kSigns = false;
  /// @param down 1: 1/8 is subtracted; 0: it is added. (These bits are random, so that branches would be mispredicted.)
  static ETNA_INLINE std::uint64_t eight(std::uint32_t index, std::uint32_t down) {
    return kGridPoints.iq1[index] + std::uint64_t{1 - down} * 0x0202020202020202u;
  }
};

struct IQ1_S : Block<256, 50>, PointsOf1 {
  static constexpr Description kDescription = {"IQ1_S", 19, 24, 0,
                                               "f16 scale, 8 sub-blocks: 3-bit scales, indices of points"};
  static ETNA_INLINE RunOfPoints points(const std::byte* b, int run) {
    RunOfPoints p;
    const std::uint32_t rest = bits_at<std::uint16_t>(b + 34 + 2 * run);
    for (int i = 0; i < 4; ++i)
      p.eights[i] = eight(byte_of(b, 2 + 4 * run + i) | (rest >> 3 * i & 7u) << 8, rest >> 15);
    return p;
  }
  static constexpr ScaleKind kScaleKind = ScaleKind::floats_per_32;
  template <class V>
  static ETNA_INLINE RunScales scales(const std::byte* b) {
    return {odd_multiples<V>(upper_nibbles<2>(b + 35) & 0x0707070707070707u, V::f16_everywhere(b) * 0.125f)};
  }
};

struct IQ1_M : Block<256, 56>, PointsOf1 {
  static constexpr Description kDescription = {"IQ1_M", 29, 31, 0,
                                               "f16 scale in parts, 16 sub-blocks: 3-bit scales, indices of points"};
  static constexpr F16Fields kF16 = {};
  static ETNA_INLINE RunOfPoints points(const std::byte* b, int run) {
    RunOfPoints p;
    const std::uint32_t rest = bits_at<std::uint16_t>(b + 32 + 2 * run);
    for (int i = 0; i < 4; ++i) {
      const std::uint32_t own = rest >> 4 * i;
      p.eights[i] = eight(byte_of(b, 4 * run + i) | (own & 7u) << 8, own >> 3 & 1u);
    }
    return p;
  }
  static constexpr ScaleKind kScaleKind = ScaleKind::floats_per_16;
  template <class V>
  static ETNA_INLINE ScalesPer16 scales_per_16(const std::byte* b) {
    const auto all = bits_at<std::uint64_t>(b + 48);
    // The top four bits of each u16 are a part of d, the lowest first; the others are four s.
    const std::uint64_t d = (all >> 12 & 0xfu) | (all >> 24 & 0xf0u) | (all >> 36 & 0xf00u) | (all >> 48 & 0xf000u);
    const std::uint64_t four = d * 0x0001000100010001u;
    const F8 unit = V::f16s_of(four, four) * 0.125f;
    return {odd_multiples<V>(threes(all) | threes(all >> 16) << 32, unit),
            odd_multiples<V>(threes(all >> 32) | threes(all >> 48) << 32, unit)};
  }

 private:
  /// Spreads four times three bits to a byte each.
  static ETNA_INLINE std::uint64_t threes(std::uint64_t x) {
    return (x & 7u) | (x & 0x38u) << 5 | (x & 0x1c0u) << 10 | (x & 0xe00u) << 15;
  }
};

}  // namespace etna::quant
