#pragma once

#include <cstddef>
#include <cstdint>

#include <etna/tensor/ops/quantized/internal/packed_formats.h>

/// How kernels for one row of x read rows of a weight. Internal.
namespace etna::quantized {

/// Asks the second cache for what is read some 400 ns later, of this row or of those behind it. Ternary weights come
/// from memory 10 to 25 % faster by it (two cores of Zen 4), dense ones 8 to 20 %. Q4_K and Q6_K come up to 8 % slower
/// and go without. Where the last bytes of rows are left out, or a quarter as far ahead, all are slower.
ETNA_INLINE void look_ahead(const std::byte* from, std::int64_t bytes) {
  constexpr std::int64_t kAhead = 8192;
  for (std::int64_t i = 0; i < bytes; i += 64) __builtin_prefetch(from + kAhead + i, 0, 2);
}

/// The last groups of a row, fewer than `Groups`; behind them zeros, as x has them there.
template <typename F, int Groups>
struct RestOfRow {
  static constexpr std::int64_t kBytes = kGroup / F::kElements * F::kBytes;

  /// @param elements that the row still has
  ETNA_INLINE RestOfRow(const std::byte* from, std::int64_t elements)
      : part(from + elements / kGroup * kBytes, elements % kGroup) {
    static constexpr std::byte kNothing[kBytes] = {};
    for (const std::byte*& group : at) {
      group = elements >= kGroup ? from : elements > 0 ? part.bytes : kNothing;
      elements -= kGroup;
      from += kBytes;
    }
  }

  Padded<F> part;
  const std::byte* at[Groups];
};

}  // namespace etna::quantized
