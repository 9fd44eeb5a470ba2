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

/// What a block format says of itself, once; decoders and the CPU's kernels for every instruction set follow. Internal.
///
/// A format is a struct, its traits. Kernels take 256 elements of a row at a time, a group, which is 256 / kElements
/// blocks and has eight runs of 32 elements. A value is scale · (quant - kZero) - minimum. Traits say
///   kDescription          the format's row in block_formats()
///   kElements, kBytes     of a block (from Block)
///   kPacking, kZero, kLast  how quants lie, the quant of 0 and the largest one
///   quants_at(run), low(run), high(run), fifth_at(run), kLevels  where a run's quants are; see Packing
///   kScaleKind, kMinimums, kF16, scales<V>(), small_scales() or sixteen_scales<V>()  scales and minimums; see scales.h
///   encode()              a block from its values and their weights
///
/// Everything that a kernel calls is evaluated by the compiler or inlined by force: sources compile it for the
/// instruction set of the function that calls it.
#define ETNA_INLINE inline __attribute__((always_inline))
#define ETNA_INLINE_LAMBDA __attribute__((always_inline))

namespace etna::quant {

inline constexpr int kGroup = 256, kSubs = 16;

/// What block_formats() says of a format besides the size of its blocks.
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
  bytes,          ///< i8 from quants_at(run) on, of which 0 is the quant kZero
  nibbles,        ///< 16 bytes from quants_at(run) on: low halves, then high ones
  nibbles_of_16,  ///< the same by eights: of each 8 bytes the low halves, then the high ones
  fields,         ///< bits of 32 bytes: low(run), and those of high(run) on top
  trits           ///< base 3, as TQ1_0 has them
};
// Nibbles may have a fifth bit each, in the u32 at fifth_at(run), or stand for the integers kLevels[16] + kZero.

/// `bits` bits of each of 32 bytes.
struct Field {
  int at = 0, shift = 0, bits = 0;
};

/// Blocks that follow each other in a group.
template <int Elements, int Bytes>
struct Block {
  static constexpr int kElements = Elements, kBytes = Bytes;
  /// Where a run's block begins.
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
/// Whether quants are too large for products of bytes without a sign and with one in 16 bits. Kernels that are bound to
/// those take quants less kZero.
template <typename F>
inline constexpr bool kTooLarge = F::kLast > 127;

/// A field of a block, wherever it lies.
template <typename T>
ETNA_INLINE T bits_at(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

/// The rest of a row that ends within a group, filled up with zeros.
template <typename F>
struct Padded {
  ETNA_INLINE Padded(const std::byte* from, std::int64_t elements) {
    const auto size = static_cast<std::size_t>(elements / F::kElements * F::kBytes);
    std::memcpy(bytes, from, std::min(size, sizeof bytes));
  }
  std::byte bytes[kGroupBytes<F>] = {};
};

/// body(0), body(1) ... with integral constants. @param body an ETNA_INLINE_LAMBDA
template <typename Body, int... I>
ETNA_INLINE void unrolled(const Body& body, std::integer_sequence<int, I...>) {
  (body(std::integral_constant<int, I>()), ...);
}
template <int Count, typename Body>
ETNA_INLINE void unrolled(const Body& body) {
  unrolled(body, std::make_integer_sequence<int, Count>());
}

/// Four-bit integers, or two-bit ones of 16 bits, to a byte each, the lowest first.
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

/// What the four bits of a quant stand for, plus kZero, so that it has no sign.
template <typename F>
struct Levels {
  alignas(16) std::uint8_t at[16] = {};
  constexpr Levels() {
    for (int i = 0; i < 16; ++i) at[i] = static_cast<std::uint8_t>(F::kLevels[i] + F::kZero);
  }
};
template <typename F>
inline constexpr Levels<F> kLevelsOf = {};

/// Quants V::kRuns · C and the next ones of a group.
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
  } else {
    return V::template trits<F, C>(b);
  }
}

}  // namespace etna::quant
