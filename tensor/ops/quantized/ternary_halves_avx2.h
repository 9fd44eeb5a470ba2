#pragma once

#if defined(__x86_64__)

#include <algorithm>
#include <cstring>

#include <etna/tensor/ops/quantized/formats_avx2.h>

/// Rows of ternary formats as table kernels take them: two bits a code, four blocks of 32 in 32 bytes. Internal.
namespace etna::quantized::avx2 {

/// Which of four blocks lies at bits 0, 2, 4 or 6 of half_of_group().
template <typename F>
constexpr int ternary_block(int place) {
  return kIs<F, I2_S> ? 3 - place : place;
}
/// Blocks 4 H ... 4 H + 3 of a group.
template <typename F, int H>
ETNA_TARGET ETNA_INLINE __m256i half_of_group(const std::byte* b) {
  if constexpr (kIs<F, TQ2_0, I2_S>) {
    return load32(b + 32 * H);
  } else {
    const __m256i low = _mm256_or_si256(codes_of<F, 4 * H>(b), _mm256_slli_epi16(codes_of<F, 4 * H + 1>(b), 2));
    const __m256i high = _mm256_or_si256(codes_of<F, 4 * H + 2>(b), _mm256_slli_epi16(codes_of<F, 4 * H + 3>(b), 2));
    return _mm256_or_si256(low, _mm256_slli_epi16(high, 4));
  }
}
/// The scale of block c of a group in f16.
template <typename F>
ETNA_INLINE std::uint16_t ternary_scale(const std::byte* group, int c) {
  constexpr int kAt = kIs<F, TQ1_0> ? 52 : kIs<F, TQ2_0> ? 64 : 8;
  std::uint16_t bits = 0x3c00;  // 1, since that of I2_S is behind the tensor
  if constexpr (!kIs<F, I2_S>) std::memcpy(&bits, group + (kIs<F, I2_S_32> ? c * F::kBytes : 0) + kAt, sizeof bits);
  return bits;
}

/// Asks for the g-th of `groups` shares of the rows that come next: too many rows are read side by side for a processor
/// to see them coming.
ETNA_INLINE void prefetch_share(const std::byte* next, std::size_t bytes, std::int64_t g, std::int64_t groups) {
  const std::size_t share = (bytes / static_cast<std::size_t>(groups) + 64) / 64 * 64;
  for (std::size_t at = static_cast<std::size_t>(g) * share;
       at < std::min(bytes, (static_cast<std::size_t>(g) + 1) * share); at += 64)
    __builtin_prefetch(next + at);
}

/// Group g of `Rows` rows of a weight. Rows from `count` on are the last one again, and what lies behind a row's end is
/// zeros.
template <typename F, int Rows>
struct TernaryRows {
  static constexpr std::int64_t kBytes = kGroup / F::kElements * F::kBytes;

  ETNA_INLINE TernaryRows(const std::byte* rows, std::size_t row_bytes, std::int64_t count, std::int64_t columns,
                          std::int64_t g) {
    for (std::int64_t r = 0; r < Rows; ++r)
      at[r] = rows + static_cast<std::size_t>(std::min(r, count - 1)) * row_bytes + g * kBytes;
    const std::int64_t rest = columns - g * kGroup;
    if (rest >= kGroup) return;
    for (int r = 0; r < Rows; ++r) {
      const Padded<F> last(at[r], rest);
      std::memcpy(filled[r], last.bytes, sizeof last.bytes);
      at[r] = filled[r];
    }
  }

  const std::byte* at[Rows];
  std::byte filled[Rows][kBytes];
};

}  // namespace etna::quantized::avx2

#endif
