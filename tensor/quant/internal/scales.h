#pragma once

#include <array>
#include <bit>

#include <etna/tensor/quant/internal/block_traits.h>

/// How blocks store scales, for the traits of formats. Internal.
///
/// kF16 has the offsets of the f16 numbers in a block. A format with kMinimums stores minimums; these do not include
/// scale · kZero, which kernels add if they need it. V, the vectors of an instruction set, has the functions that
/// depend on it: f16s(), f16_pairs(), f16_everywhere(), f16s_of() and ints().

// GCC warns of the ABI of 32-byte vectors as arguments; functions with such arguments are always inlined.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wpsabi"
#endif

namespace etna::quant {

typedef float F8 __attribute__((vector_size(32)));         ///< one for each run of a group
typedef std::int32_t I8 __attribute__((vector_size(32)));  ///< the same
typedef std::int8_t B16 __attribute__((vector_size(16)));  ///< one for each 16 elements

enum class ScaleKind {
  floats_per_32,    ///< scales<V>(): a float for each run of 32
  integers_per_16,  ///< small_scales(), small_minimums(): for each 16 elements, in units of an f16 d and an f16 dmin
  floats_per_16     ///< scales_per_16<V>(): a float for each 16 elements, no minimums
};
template <typename F>
inline constexpr bool kHasIntegersPer16 = F::kScaleKind == ScaleKind::integers_per_16;
template <typename F>
inline constexpr bool kHasFloatsPer16 = F::kScaleKind == ScaleKind::floats_per_16;

/// Whether the scale at kF16.first applies to a whole group.
template <typename F>
inline constexpr bool kHasOneScale = requires {
  F::kOneScale;
};

struct RunScales {
  F8 scales, minimums = F8{};
};

struct ScalesPer16 {
  F8 first, last;
};

/// Offsets of the eight runs' blocks in a group.
template <typename F>
inline constexpr std::array<int, 8> kBlocks = {F::block(0), F::block(1), F::block(2), F::block(3),
                                               F::block(4), F::block(5), F::block(6), F::block(7)};

/// Four bits of each of 16 bytes, from bit `Shift` on.
template <int Shift>
ETNA_INLINE B16 four_bits(B16 bytes) {
  typedef std::uint16_t Words __attribute__((vector_size(16)));
  return (B16)((((Words)bytes) >> Shift) & static_cast<std::uint16_t>(0x0f0f));
}

/// An f16 d at the start of a block.
template <typename F>
struct F16Scale {
  static constexpr ScaleKind kScaleKind = ScaleKind::floats_per_32;
  static constexpr bool kMinimums = false;
  static constexpr F16Fields kF16 = {0, -1};
  template <class V>
  static ETNA_INLINE RunScales scales(const std::byte* b) {
    return {V::template f16s<F>(b)};
  }
};
/// An f16 d and an f16 m, which is added.
template <typename F>
struct F16ScaleAndMinimum {
  static constexpr ScaleKind kScaleKind = ScaleKind::floats_per_32;
  static constexpr bool kMinimums = true;
  static constexpr F16Fields kF16 = {0, 2};
  template <class V>
  static ETNA_INLINE RunScales scales(const std::byte* b) {
    const RunScales pairs = V::template f16_pairs<F>(b);
    return {pairs.scales, -pairs.minimums};
  }
};
/// An f16 d and an f16 z, the zero point minus kZero.
template <typename F>
struct F16ScaleAndZeroPoint {
  static constexpr ScaleKind kScaleKind = ScaleKind::floats_per_32;
  static constexpr bool kMinimums = true;
  static constexpr F16Fields kF16 = {0, 2};
  template <class V>
  static ETNA_INLINE RunScales scales(const std::byte* b) {
    const RunScales pairs = V::template f16_pairs<F>(b);
    return {pairs.scales, pairs.scales * pairs.minimums};
  }
};
/// One f16 for a block of 256.
template <int At>
struct F16ScaleOf256 {
  static constexpr bool kOneScale = true;
  static constexpr ScaleKind kScaleKind = ScaleKind::floats_per_32;
  static constexpr bool kMinimums = false;
  static constexpr F16Fields kF16 = {At, -1};
  template <class V>
  static ETNA_INLINE RunScales scales(const std::byte* b) {
    return {V::f16_everywhere(b + At)};
  }
};

/// 2^(e - 127) divided by two, for a byte e at the start of a block. The two smallest are subnormal.
template <typename F>
struct HalfPowerScale {
  static constexpr ScaleKind kScaleKind = ScaleKind::floats_per_32;
  static constexpr bool kMinimums = false;
  static constexpr F16Fields kF16 = {-1, -1};
  template <class V>
  static ETNA_INLINE RunScales scales(const std::byte* b) {
    // Collected in a register: eight stores followed by one load would prevent store forwarding.
    std::uint64_t bytes = 0;
    for (int i = 0; i < 8; ++i)
      bytes |= static_cast<std::uint64_t>(b[kBlocks<F>[static_cast<std::size_t>(i)]]) << (8 * i);
    const I8 e = V::ints(bytes), normal = (e - 1) << 23, subnormal = (e << 21) + 0x200000;
    return {(F8)(e < 2 ? subnormal : normal)};
  }
};

/// Eight 6-bit scales and minimums in 12 bytes, in units of f16 d and dmin: the first four scales and minimums have a
/// byte each; the low bits of the others are in the last four bytes, their high bits in the top bits of the first
/// eight.
struct SixBitScalesAndMinimums {
  static constexpr ScaleKind kScaleKind = ScaleKind::floats_per_32;
  static constexpr bool kMinimums = true;
  static constexpr F16Fields kF16 = {0, 2};
  template <class V>
  static ETNA_INLINE RunScales scales(const std::byte* b) {
    const auto x = bits_at<std::uint32_t>(b + 4), y = bits_at<std::uint32_t>(b + 8), z = bits_at<std::uint32_t>(b + 12);
    const std::uint32_t scale = (z & 0x0f0f0f0fu) | (x >> 2 & 0x30303030u);
    const std::uint32_t minimum = (z >> 4 & 0x0f0f0f0fu) | (y >> 2 & 0x30303030u);
    return {floats<V>(x & 0x3f3f3f3fu, scale) * V::f16_everywhere(b),
            floats<V>(y & 0x3f3f3f3fu, minimum) * V::f16_everywhere(b + 2)};
  }

 private:
  template <class V>
  static ETNA_INLINE F8 floats(std::uint32_t low, std::uint32_t high) {
    return __builtin_convertvector(V::ints(static_cast<std::uint64_t>(high) << 32 | low), F8);
  }
};

/// Sixteen i8 scales at byte At, in units of an f16 d at byte Unit.
template <int At, int Unit>
struct ByteScales {
  static constexpr ScaleKind kScaleKind = ScaleKind::integers_per_16;
  static constexpr bool kMinimums = false;
  static constexpr F16Fields kF16 = {Unit, -1};
  static ETNA_INLINE B16 small_scales(const std::byte* b) { return bits_at<B16>(b + At); }
};

}  // namespace etna::quant
