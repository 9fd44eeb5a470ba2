#pragma once

#include <algorithm>
#include <cfloat>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <type_traits>
#include <utility>

#include <etna/tensor/quant/block_format.h>

/// The single description of a block format, from which decoders and the CPU kernels of every instruction set are
/// generated. Internal.
///
/// A format is described by a struct of traits. Kernels process a group of 256 elements of a row at a time, which is
/// 256 / kElements blocks and eight runs of 32 elements. A value is scale · (quant - kZero) - minimum. The traits are
///   kDescription          the format's row in block_formats()
///   kElements, kBytes     of a block (from Block)
///   kPacking, kZero, kLast  how quants are packed, the quant of 0 and the largest one
///   quants_at(run), low(run), high(run), fifth_at(run), kLevels, points()  where a run's quants are; see Packing
///   kScaleKind, kMinimums, kF16, scales<V>(), small_scales() or scales_per_16<V>()  scales and minimums; see scales.h
///   encode()              a block from its values and their weights; a format without it is only decoded
///
/// All functions that a kernel calls are consteval or force-inlined, so that they are compiled for the instruction set
/// of their caller.
#define ETNA_INLINE inline __attribute__((always_inline))
#define ETNA_INLINE_LAMBDA __attribute__((always_inline))

namespace etna::quant {

inline constexpr int kGroup = 256, kSubs = 16;

/// The row of a format in block_formats(), without the size of its blocks.
struct Description {
  std::string_view name;
  std::uint32_t gguf_type, gguf_file_type;
  float largest;
  std::string_view holds;
  std::size_t tail = 0;
};
inline constexpr float kLargestF16 = 65504.0f;

/// How the quants of a run are packed.
enum class Packing {
  bytes,          ///< i8 from quants_at(run) on; a byte of 0 is the quant kZero
  nibbles,        ///< 16 bytes from quants_at(run) on: the low nibbles, then the high ones
  nibbles_of_16,  ///< the same in groups of 8 bytes: the low nibbles of each group, then the high ones
  fields,         ///< bits of 32 bytes: low(run), with those of high(run) above them
  trits,          ///< base 3, as in TQ1_0
  points          ///< indices into a table: points(block, run); see grid_formats.h
};
// Nibbles may each have a fifth bit, in the u32 at fifth_at(run), or be indices into kLevels[16] (plus kZero).

/// `bits` bits of each of 32 bytes.
struct Field {
  int at = 0, shift = 0, bits = 0;
};

/// The blocks of a group, one after the other.
template <int Elements, int Bytes>
struct Block {
  static constexpr int kElements = Elements, kBytes = Bytes;
  /// The offset of a run's block.
  static consteval int block(int run) { return 32 * run / Elements * Bytes; }
};
template <typename F>
inline constexpr std::int64_t kGroupBytes = F::kBytes*(kGroup / F::kElements);

template <typename F>
inline constexpr bool kHasHigh = requires {
  F::high(0);
};
template <typename F>
inline constexpr bool kHasFifth = requires {
  F::fifth_at(0);
};
template <typename F>
inline constexpr bool kHasLevels = requires {
  F::kLevels;
};
/// Whether quants are too large for u8 · i8 products that are summed in 16 bits. Kernels that depend on such products
/// use quants minus kZero.
template <typename F>
inline constexpr bool kTooLarge = F::kLast > 127;

/// A field of a block at any alignment.
template <typename T>
ETNA_INLINE T bits_at(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

/// The rest of a row that ends within a group, padded with zeros.
template <typename F>
struct Padded {
  ETNA_INLINE Padded(const std::byte* from, std::int64_t elements) {
    const auto size = static_cast<std::size_t>(elements / F::kElements * F::kBytes);
    std::memcpy(bytes, from, std::min(size, sizeof bytes));
  }
  std::byte bytes[kGroupBytes<F>] = {};
};

/// Calls body(0), body(1) ... with integral constants. @param body an ETNA_INLINE_LAMBDA
template <typename Body, int... I>
ETNA_INLINE void unrolled(const Body& body, std::integer_sequence<int, I...>) {
  (body(std::integral_constant<int, I>()), ...);
}
template <int Count, typename Body>
ETNA_INLINE void unrolled(const Body& body) {
  unrolled(body, std::make_integer_sequence<int, Count>());
}

/// Spreads 4-bit integers, or the 2-bit ones of 16 bits, to one byte each, the lowest first.
ETNA_INLINE std::uint64_t spread_nibbles(std::uint32_t nibbles) {
  std::uint64_t x = nibbles;
  x = (x | x << 16) & 0x0000ffff0000ffffu;
  x = (x | x << 8) & 0x00ff00ff00ff00ffu;
  return (x | x << 4) & 0x0f0f0f0f0f0f0f0fu;
}
ETNA_INLINE std::uint64_t spread_pairs(std::uint16_t pairs) {
  std::uint64_t x = pairs;
  x = (x | x << 24) & 0x000000ff000000ffu;
  x = (x | x << 12) & 0x000f000f000f000fu;
  return (x | x << 6) & 0x0303030303030303u;
}

/// The value of a 4-bit quant plus kZero, which makes it unsigned.
template <typename F>
struct Levels {
  alignas(16) std::uint8_t at[16] = {};
  constexpr Levels() {
    for (int i = 0; i < 16; ++i) at[i] = static_cast<std::uint8_t>(F::kLevels[i] + F::kZero);
  }
};
template <typename F>
inline constexpr Levels<F> kLevelsOf = {};

/// The quants of V::kRuns runs of a group, from run V::kRuns · C on.
template <class V, typename F, int C>
ETNA_INLINE typename V::Quants quants_of(const std::byte* b) {
  if constexpr (F::kPacking == Packing::bytes) {
    return V::template bytes<F, C>(b);
  } else if constexpr (F::kPacking == Packing::nibbles || F::kPacking == Packing::nibbles_of_16) {
    auto four = V::template nibbles<F, C>(b);
    if constexpr (F::kPacking == Packing::nibbles_of_16) four = V::by_eights(four);
    if constexpr (kHasFifth<F>)
      return V::template with_fifth<F, C>(b, four);
    else if constexpr (kHasLevels<F>)
      return V::template levels<F>(four);
    else
      return four;
  } else if constexpr (F::kPacking == Packing::fields) {
    const auto bits = V::template low<F, C>(b);
    if constexpr (kHasHigh<F>)
      return V::template with_high<F, C>(b, bits);
    else
      return bits;
  } else if constexpr (F::kPacking == Packing::trits) {
    return V::template trits<F, C>(b);
  } else {
    return V::template points<F, C>(b);
  }
}

}  // namespace etna::quant
