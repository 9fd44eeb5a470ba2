#include <etna/tensor/ops/quantized/row_kernels_targets.h>

#if defined(__x86_64__)

// GCC 12 takes the intrinsics' own undefined operands for mistakes.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
// What a lambda of a wider target returns never crosses a call: it is always inlined.
#pragma GCC diagnostic ignored "-Wpsabi"
#endif

#include <algorithm>
#include <cstring>
#include <string_view>

#include <etna/tensor/ops/quantized/formats_avx512.h>

// Many rows of x in codes of 8 bits, as in panel_kernels_avx2.cpp: sixteen rows of a weight are interleaved by words of
// four codes, so that a lane holds the sum of one row, and VNNI adds 64 products. Bound by loads: 512 products take
// eight words of x from the first cache. Lost: widening to bf16 for oneDNN (0.3 of the speed with 12 rows, 0.7 with
// 128; Zen 5).
namespace etna::quantized::avx512 {
namespace {

constexpr int kLanes = 16;              // rows of a weight beside each other
constexpr std::int64_t kTogether = 32;  // rows of x that take turns with an unpacked group

/// 256 elements of 16 rows: words of four codes, [64, 16], and scales and minimums of 16 elements each.
struct Packed {
  alignas(64) std::byte codes[kGroup * kLanes];
  float scales[kSubs][kLanes], minimums[kSubs][kLanes];
};
static_assert(sizeof(Packed) <= kPackedBytes * kLanes / 8);

/// Formats with a scale for each 16 elements; others have one for each 32.
template <typename F>
inline constexpr bool kSixteens = kIs<F, Q6_K, Q3_K, Q2_K>;

ETNA_TARGET ETNA_INLINE void transpose(__m512i (&r)[16]) {
  __m512i s[16];
  for (int i = 0; i < 8; ++i) {
    s[2 * i] = _mm512_unpacklo_epi32(r[2 * i], r[2 * i + 1]);
    s[2 * i + 1] = _mm512_unpackhi_epi32(r[2 * i], r[2 * i + 1]);
  }
  // Words 0, 1, 2 and 3 of each lane, of four rows.
  for (int i = 0; i < 4; ++i) {
    r[4 * i] = _mm512_unpacklo_epi64(s[4 * i], s[4 * i + 2]);
    r[4 * i + 1] = _mm512_unpackhi_epi64(s[4 * i], s[4 * i + 2]);
    r[4 * i + 2] = _mm512_unpacklo_epi64(s[4 * i + 1], s[4 * i + 3]);
    r[4 * i + 3] = _mm512_unpackhi_epi64(s[4 * i + 1], s[4 * i + 3]);
  }
  // Lanes of four times four rows.
  for (int word = 0; word < 4; ++word) {
    const __m512i even_low = _mm512_shuffle_i32x4(r[word], r[word + 4], 0x88),
                  even_high = _mm512_shuffle_i32x4(r[word + 8], r[word + 12], 0x88),
                  odd_low = _mm512_shuffle_i32x4(r[word], r[word + 4], 0xdd),
                  odd_high = _mm512_shuffle_i32x4(r[word + 8], r[word + 12], 0xdd);
    s[word] = _mm512_shuffle_i32x4(even_low, even_high, 0x88);
    s[word + 8] = _mm512_shuffle_i32x4(even_low, even_high, 0xdd);
    s[word + 4] = _mm512_shuffle_i32x4(odd_low, odd_high, 0x88);
    s[word + 12] = _mm512_shuffle_i32x4(odd_low, odd_high, 0xdd);
  }
  for (int i = 0; i < 16; ++i) r[i] = s[i];
}

template <typename F, int C>
ETNA_TARGET ETNA_INLINE void pack_codes(const std::byte* const (&rows)[kLanes], std::byte* to) {
  __m512i words[16];
  for (int r = 0; r < kLanes; ++r) words[r] = codes_of<F, C>(rows[r]);
  transpose(words);
  for (int i = 0; i < 16; ++i) _mm512_store_si512(to + (16 * C + i) * 64, words[i]);
}

template <typename F>
ETNA_TARGET void pack(const std::byte* const (&rows)[kLanes], Packed& to) {
  __m512i scales[kLanes], minimums[kLanes];
  for (int r = 0; r < kLanes; ++r) {
    const Steps steps = steps_of<F>(rows[r]);
    scales[r] = _mm512_castps_si512(steps.scales);
    minimums[r] = _mm512_castps_si512(steps.minimums);
  }
  transpose(scales);
  transpose(minimums);
  for (int i = 0; i < kSubs; ++i) {
    _mm512_store_si512(to.scales[i], scales[i]);
    _mm512_store_si512(to.minimums[i], minimums[i]);
  }
  pack_codes<F, 0>(rows, to.codes);
  pack_codes<F, 1>(rows, to.codes);
  pack_codes<F, 2>(rows, to.codes);
  pack_codes<F, 3>(rows, to.codes);
}

/// The products of words First ... First + 3 of a block.
template <int First>
ETNA_TARGET ETNA_INLINE __m512i half_block(const __m512i (&w)[8], const std::int8_t* x) {
  __m512i sum = _mm512_setzero_si512();
  for (int i = First; i < First + 4; ++i) {
    int word;
    std::memcpy(&word, x + 4 * i, sizeof word);
    sum = _mm512_dpbusd_epi32(sum, w[i], _mm512_set1_epi32(word));
  }
  return sum;
}

/// Adds the products of block c of a group with rows of x. @param sums [rows, 16]
template <typename F>
ETNA_TARGET void multiply_block(const Packed& packed, int c, const RoundedGroup* x, std::int64_t rows, float* sums) {
  __m512i w[8];
  for (int i = 0; i < 8; ++i) w[i] = _mm512_load_si512(packed.codes + (8 * c + i) * 64);
  const __m512 first = _mm512_load_ps(packed.scales[2 * c]), second = _mm512_load_ps(packed.scales[2 * c + 1]),
               first_minimum = _mm512_load_ps(packed.minimums[2 * c]),
               second_minimum = _mm512_load_ps(packed.minimums[2 * c + 1]);
  for (std::int64_t m = 0; m < rows; ++m) {
    const std::int8_t* own = x[m].codes + 32 * c;
    const __m512i low = half_block<0>(w, own), high = half_block<4>(w, own);
    const __m512 scale = _mm512_set1_ps(x[m].block_scales[c]);
    __m512 sum = _mm512_load_ps(sums + kLanes * m);
    if constexpr (kSixteens<F>) {
      sum = _mm512_fmadd_ps(_mm512_cvtepi32_ps(low), _mm512_mul_ps(first, scale), sum);
      sum = _mm512_fmadd_ps(_mm512_cvtepi32_ps(high), _mm512_mul_ps(second, scale), sum);
      sum = _mm512_fnmadd_ps(first_minimum, _mm512_set1_ps(x[m].sums[2 * c]), sum);
      sum = _mm512_fnmadd_ps(second_minimum, _mm512_set1_ps(x[m].sums[2 * c + 1]), sum);
    } else {
      sum = _mm512_fmadd_ps(_mm512_cvtepi32_ps(_mm512_add_epi32(low, high)), _mm512_mul_ps(first, scale), sum);
      sum = _mm512_fnmadd_ps(first_minimum, _mm512_set1_ps(x[m].block_sums[c]), sum);
    }
    _mm512_store_ps(sums + kLanes * m, sum);
  }
}

/// Unpacks group g of 16 rows, of which those from `count` on are the last one again.
template <typename F>
ETNA_TARGET void pack_group(const std::byte* rows, std::size_t row_bytes, std::int64_t count, std::int64_t columns,
                            std::int64_t g, Packed& to) {
  constexpr std::int64_t kBytes = kGroup / F::kElements * F::kBytes;
  const std::byte* at[kLanes];
  for (std::int64_t r = 0; r < kLanes; ++r)
    at[r] = rows + static_cast<std::size_t>(std::min(r, count - 1)) * row_bytes + g * kBytes;
  std::byte filled[kLanes][kBytes];
  if (const std::int64_t rest = columns - g * kGroup; rest < kGroup) {
    for (int r = 0; r < kLanes; ++r) {
      const Padded<F> last(at[r], rest);
      std::memcpy(filled[r], last.bytes, sizeof last.bytes);
      at[r] = filled[r];
    }
  }
  pack<F>(at, to);
}

template <typename F>
ETNA_TARGET void multiply(const std::byte* rows, std::size_t row_bytes, std::int64_t count, std::int64_t columns,
                          const Activations& x, std::byte* room, float* out, std::int64_t step) {
  const std::int64_t groups = (columns + kGroup - 1) / kGroup, panels = (count + kLanes - 1) / kLanes;
  auto* packed = reinterpret_cast<Packed*>(room);
  for (std::int64_t p = 0; p < panels; ++p) {
    for (std::int64_t g = 0; g < groups; ++g) {
      pack_group<F>(rows + static_cast<std::size_t>(p * kLanes) * row_bytes, row_bytes, count - p * kLanes, columns, g,
                    packed[p * groups + g]);
    }
  }
  alignas(64) float sums[kPanelRows / kLanes][kTogether * kLanes];
  for (std::int64_t first = 0; first < x.rows; first += kTogether) {
    const std::int64_t some = std::min(kTogether, x.rows - first);
    std::memset(sums, 0, sizeof sums);
    for (std::int64_t g = 0; g < groups; ++g) {
      for (std::int64_t p = 0; p < panels; ++p)
        for (int c = 0; c < 8; ++c) multiply_block<F>(packed[p * groups + g], c, x.at(first, g), some, sums[p]);
    }
    for (std::int64_t p = 0; p < panels; ++p) {
      const auto lanes = static_cast<std::size_t>(std::min<std::int64_t>(kLanes, count - p * kLanes));
      for (std::int64_t m = 0; m < some; ++m)
        std::memcpy(out + (first + m) * step + p * kLanes, sums[p] + kLanes * m, lanes * sizeof(float));
    }
  }
}

}  // namespace

PanelKernel panel_kernel(std::string_view format) {
#define ETNA_FORMAT(NAME) \
  if (format == #NAME) return multiply<NAME>;
  ETNA_PACKED_FORMATS(ETNA_FORMAT)
#undef ETNA_FORMAT
  return nullptr;
}

}  // namespace etna::quantized::avx512

#endif
