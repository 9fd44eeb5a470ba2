#include <etna/tensor/ops/quantized/row_kernels_targets.h>

#ifdef ETNA_ROWS_BY_AVX512

// GCC 12 takes the intrinsics' own undefined operands for mistakes.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wpsabi"
#endif

#include <algorithm>
#include <cstring>
#include <string_view>

#include <etna/tensor/ops/quantized/formats_avx2.h>
#include <etna/tensor/ops/quantized/ternary_halves_avx2.h>

#define ETNA_TABLE_TARGET \
  __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,avx2,fma,f16c")))

// Ternary weights by look-up, as in table_kernels_avx2.cpp, with the permutation of 64 bytes of AVX-512 VBMI: three
// neighbouring codes are a place in a table of 64 (27 of them in use), which serves 64 rows at once. Bound by turning
// rows around and finding places with one row of x, by reading 11 KiB of tables for a group with many.
//
// VNNI multiplies 64 codes in an instruction. ns for a group of 256 and a row of x from the caches (Zen 5), tables and
// integer products, with 1, 4 and 8 rows: TQ2_0 3.9 and 2.9, 2.0 and 1.9, 2.0 and 1.9; I2_S 3.8 and 3.0, 2.0 and 1.6,
// 1.9 and 1.6; TQ1_0 9.1 and 5.7, 3.4 and 2.8, 2.4 and 2.8, but from memory tables lose there, too, by a fifth.
namespace etna::quantized::avx512 {
namespace {

using namespace avx2;

constexpr int kLanes = 64;         // rows of a weight beside each other
constexpr int kTriples = 11;       // of a block of 32 elements; the last one is a pair
constexpr int kTripleBytes = 128;  // of a triple's table: 64 lows, then 64 highs
constexpr std::size_t kTableBytes = 8 * kTriples * kTripleBytes;

/// Rows as the sums of a block come out: 8 in each half of four vectors.
constexpr int kOrder[8] = {0, 16, 32, 48, 8, 24, 40, 56};

/// 16 bytes of each of 64 rows, 16 of them in each lane, to one byte of all rows in each vector.
ETNA_TABLE_TARGET ETNA_INLINE void transpose_bytes(__m512i (&r)[16]) {
  for (int stage = 0; stage < 4; ++stage) {
    __m512i s[16];
    for (int i = 0; i < 8; ++i) {
      s[2 * i] = _mm512_unpacklo_epi8(r[i], r[i + 8]);
      s[2 * i + 1] = _mm512_unpackhi_epi8(r[i], r[i + 8]);
    }
    for (int i = 0; i < 16; ++i) r[i] = s[i];
  }
}

/// Places in tables: of four blocks, for 64 rows. Bits above the lowest six are whatever.
struct Places {
  __m512i at[4][kTriples];
};

/// Bits of x moved up, or down where `By` is negative.
template <int By>
ETNA_TABLE_TARGET ETNA_INLINE __m512i moved_up(__m512i x) {
  if constexpr (By == 0) return x;
  if constexpr (By > 0) return _mm512_slli_epi16(x, std::max(By, 0));
  return _mm512_srli_epi16(x, std::max(-By, 0));
}
template <int Place>
ETNA_TABLE_TARGET ETNA_INLINE __m512i place_of(__m512i a, __m512i b, __m512i c) {
  const __m512i two =
      _mm512_ternarylogic_epi32(_mm512_set1_epi8(3), moved_up<-2 * Place>(a), moved_up<2 - 2 * Place>(b), 0xca);
  return _mm512_ternarylogic_epi32(_mm512_set1_epi8(15), two, moved_up<4 - 2 * Place>(c), 0xca);
}

template <typename F, int H>
ETNA_TABLE_TARGET ETNA_INLINE void find_places(const std::byte* const (&rows)[kLanes], Places& places) {
  // 16 bytes each: [2 parts of 32 bytes, 16, 4] of rows 0, 16, 32, 48, 1, 17 ...
  alignas(64) __m128i halves[2 * kLanes];
  for (int r = 0; r < kLanes; ++r) {
    const __m256i half = half_of_group<F, H>(rows[r]);
    halves[4 * (r % 16) + r / 16] = _mm256_castsi256_si128(half);
    halves[64 + 4 * (r % 16) + r / 16] = _mm256_extracti128_si256(half, 1);
  }
  __m512i bytes[33];
  for (int part = 0; part < 2; ++part) {
    __m512i r[16];
    for (int i = 0; i < 16; ++i) r[i] = _mm512_load_si512(halves + 64 * part + 4 * i);
    transpose_bytes(r);
    for (int i = 0; i < 16; ++i) bytes[16 * part + i] = r[i];
  }
  bytes[32] = _mm512_setzero_si512();
  for (int t = 0; t < kTriples; ++t) {
    const __m512i a = bytes[3 * t], b = bytes[3 * t + 1], c = bytes[3 * t + 2];
    places.at[0][t] = place_of<0>(a, b, c);
    places.at[1][t] = place_of<1>(a, b, c);
    places.at[2][t] = place_of<2>(a, b, c);
    places.at[3][t] = place_of<3>(a, b, c);
  }
}

/// Sums of a block for 64 rows, 16 bits each.
ETNA_TABLE_TARGET ETNA_INLINE void look_up(const __m512i (&places)[kTriples], const std::byte* tables,
                                           __m512i (&sums)[2]) {
  const __m512i none = _mm512_setzero_si512();
  __m512i highs = none, lows[2] = {none, none};
  for (int i = 0; i < kTriples; i += 4) {
    __m512i four = none;
    for (int k = i; k < std::min(i + 4, kTriples); ++k) {
      const __m512i low = _mm512_load_si512(tables + kTripleBytes * k),
                    high = _mm512_load_si512(tables + kTripleBytes * k + 64);
      four = _mm512_add_epi8(four, _mm512_permutexvar_epi8(places[k], low));
      highs = _mm512_add_epi8(highs, _mm512_permutexvar_epi8(places[k], high));
    }
    lows[0] = _mm512_add_epi16(lows[0], _mm512_unpacklo_epi8(four, none));
    lows[1] = _mm512_add_epi16(lows[1], _mm512_unpackhi_epi8(four, none));
  }
  sums[0] = _mm512_add_epi16(lows[0], _mm512_srai_epi16(_mm512_unpacklo_epi8(none, highs), 2));
  sums[1] = _mm512_add_epi16(lows[1], _mm512_srai_epi16(_mm512_unpackhi_epi8(none, highs), 2));
}

using Floats = __m512;
ETNA_TABLE_TARGET ETNA_INLINE __m512 widened(const std::uint16_t (&halves)[16]) {
  return _mm512_cvtph_ps(load32(reinterpret_cast<const std::byte*>(halves)));
}
ETNA_TABLE_TARGET ETNA_INLINE void add_products(const __m512i (&places)[kTriples], const std::byte* tables,
                                                const __m512 (&scales)[4], float scale, float* sums) {
  __m512i found[2];
  look_up(places, tables, found);
  for (int v = 0; v < 4; ++v) {
    const __m256i half = v % 2 == 0 ? _mm512_castsi512_si256(found[v / 2]) : _mm512_extracti64x4_epi64(found[v / 2], 1);
    const __m512 products = _mm512_cvtepi32_ps(_mm512_cvtepi16_epi32(half)), own = _mm512_set1_ps(scale);
    float* to = sums + 16 * v;
    _mm512_store_ps(to, _mm512_fmadd_ps(products, _mm512_mul_ps(scales[v], own), _mm512_load_ps(to)));
  }
}

/// Tables of groups: 8 blocks of 11 triples each.
ETNA_TABLE_TARGET void fill(const RoundedGroup* groups, std::int64_t count, std::byte* to) {
  // Place p is codes p % 4, p / 4 % 4 and p / 16; a code is 1 more than its value.
  const __m256i first = _mm256_setr_epi16(-1, 0, 1, 2, -1, 0, 1, 2, -1, 0, 1, 2, -1, 0, 1, 2);
  const __m256i second = _mm256_setr_epi16(-1, -1, -1, -1, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2);
  for (std::int64_t g = 0; g < count; ++g) {
    for (int block = 0; block < 8; ++block) {
      for (int triple = 0; triple < kTriples; ++triple, to += kTripleBytes) {
        const std::int8_t* codes = groups[g].codes + 32 * block + 3 * triple;
        const short last = triple == kTriples - 1 ? short{0} : short{codes[2]};
        const __m256i two = _mm256_add_epi16(_mm256_mullo_epi16(first, _mm256_set1_epi16(codes[0])),
                                             _mm256_mullo_epi16(second, _mm256_set1_epi16(codes[1])));
        for (int third = 0; third < 4; ++third) {
          const __m256i sums = _mm256_add_epi16(two, _mm256_set1_epi16(static_cast<short>((third - 1) * last)));
          const __m128i lows = _mm256_cvtepi16_epi8(_mm256_and_si256(sums, _mm256_set1_epi16(63))),
                        highs = _mm256_cvtepi16_epi8(_mm256_srai_epi16(sums, 6));
          _mm_storeu_si128(reinterpret_cast<__m128i*>(to + 16 * third), lows);
          _mm_storeu_si128(reinterpret_cast<__m128i*>(to + 64 + 16 * third), highs);
        }
      }
    }
  }
}

#include <etna/tensor/ops/quantized/table_kernels.inc>

}  // namespace

TableKernels table_kernels(std::string_view format) {
  if (!__builtin_cpu_supports("avx512vbmi")) return {};
  // Faster nowhere, so that only tests and measurements choose them.
  if (format == "TQ1_0") return kernels_of<TQ1_0>(0);
  if (format == "TQ2_0") return kernels_of<TQ2_0>(0);
  if (format == "I2_S") return kernels_of<I2_S>(0);
  if (format == "I2_S_32") return kernels_of<I2_S_32>(0);
  return {};
}

}  // namespace etna::quantized::avx512

#endif
