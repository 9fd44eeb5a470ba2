#include <etna/tensor/ops/quantized/internal/cpu_kernels.h>

#ifdef ETNA_KERNELS_AVX2

#include <algorithm>
#include <array>
#include <bit>
#include <cfloat>
#include <cstring>

ETNA_BEGIN_TARGET("avx2,fma,f16c")

#include <etna/tensor/quant/internal/ternary_formats.h>
#include <etna/tensor/quant/internal/vector_avx2.h>

// Ternary weights by lookup tables. Two neighbouring quants of a row index a table of 16 sums of two quants of x, and
// one byte shuffle looks up 32 rows. A sum is 64 · high + low: four lows fit in a byte and sixteen highs in a signed
// one, so the sums of 32 elements equal those of integer products exactly. With one row of x, bound by transposing rows
// and computing indices; with many, by loads (an index and two tables for 64 products).
//
// ns for a group of 256 and a row of x (Zen 5 limited to AVX2), tables and integer products, with 1, 4 and 8 rows:
// TQ2_0 5.5 and 3.7, 3.0 and 3.2, 2.6 and 3.3; I2_S 5.4 and 3.5, 3.0 and 3.2, 2.6 and 3.2; TQ1_0 11.7 and 9.3, 4.6 and
// 4.6, 3.4 and 4.6. Lost: 8-bit lows, each of which has to be widened before it is added; hardware prefetching of the
// next rows alone (half the speed from memory).
namespace etna::quantized::avx2 {
namespace {

using namespace quant;

/// Runs 4 H ... 4 H + 3 of a group, at bits 0, 2, 4 and 6.
template <typename F, int H>
ETNA_INLINE __m256i half_of_group(const std::byte* b) {
  if constexpr (F::kPacking == Packing::fields) {
    return load32(b + 32 * H);
  } else {
    const __m256i low =
        _mm256_or_si256(quants_of<Avx2, F, 4 * H>(b), _mm256_slli_epi16(quants_of<Avx2, F, 4 * H + 1>(b), 2));
    const __m256i high =
        _mm256_or_si256(quants_of<Avx2, F, 4 * H + 2>(b), _mm256_slli_epi16(quants_of<Avx2, F, 4 * H + 3>(b), 2));
    return _mm256_or_si256(low, _mm256_slli_epi16(high, 4));
  }
}
/// Which of four runs is at bits 2 · place of half_of_group().
template <typename F>
constexpr int run_at(int place) {
  if constexpr (F::kPacking != Packing::fields)
    return place;
  else
    return kRunAt<F>[place];
}
/// A group's scale in f16.
template <typename F>
ETNA_INLINE std::uint16_t f16_scale(const std::byte* group) {
  if constexpr (F::kF16.first < 0)
    return 0x3c00;  // 1: the scale of I2_S is stored after the tensor
  else
    return bits_at<std::uint16_t>(group + F::kF16.first);
}

/// Prefetches the g-th of `groups` parts of the next rows: too many rows are read at once for hardware prefetching.
ETNA_INLINE void prefetch_share(const std::byte* next, std::size_t bytes, std::int64_t g, std::int64_t groups) {
  const std::size_t share = (bytes / static_cast<std::size_t>(groups) + 64) / 64 * 64;
  for (std::size_t at = static_cast<std::size_t>(g) * share;
       at < std::min(bytes, (static_cast<std::size_t>(g) + 1) * share); at += 64)
    __builtin_prefetch(next + at);
}

/// Group g of `Rows` rows of a weight. Rows from `count` on repeat the last one; the end of a row is padded with zeros.
template <typename F, int Rows>
struct TernaryRows {
  static constexpr std::int64_t kBytes = kGroupBytes<F>;

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

constexpr int kLanes = 32;      // interleaved rows of a weight
constexpr int kPairs = 16;      // of a run
constexpr int kPairBytes = 32;  // of a pair's table: 16 lows, then 16 highs
constexpr std::size_t kTableBytes = kGroup / 2 * kPairBytes;

/// The order in which the sums of a run come out: the first row of each of four vectors with 8 rows.
constexpr int kOrder[4] = {0, 16, 8, 24};

/// Transposes 16 bytes of each of 32 rows (16 rows in each 128-bit lane) to one byte of all rows in each vector.
ETNA_INLINE void transpose_bytes(__m256i (&r)[16]) {
  __m256i s[16];
  for (int i = 0; i < 8; ++i) {
    s[2 * i] = _mm256_unpacklo_epi8(r[i], r[i + 8]);
    s[2 * i + 1] = _mm256_unpackhi_epi8(r[i], r[i + 8]);
  }
  for (int i = 0; i < 8; ++i) {
    r[2 * i] = _mm256_unpacklo_epi8(s[i], s[i + 8]);
    r[2 * i + 1] = _mm256_unpackhi_epi8(s[i], s[i + 8]);
  }
  for (int i = 0; i < 8; ++i) {
    s[2 * i] = _mm256_unpacklo_epi8(r[i], r[i + 8]);
    s[2 * i + 1] = _mm256_unpackhi_epi8(r[i], r[i + 8]);
  }
  for (int i = 0; i < 8; ++i) {
    r[2 * i] = _mm256_unpacklo_epi8(s[i], s[i + 8]);
    r[2 * i + 1] = _mm256_unpackhi_epi8(s[i], s[i + 8]);
  }
}

/// Indices into tables for 32 rows: four runs of 16 pairs.
struct Places {
  __m256i at[4][kPairs];
};

template <typename F, int H>
ETNA_INLINE void find_places(const std::byte* const (&rows)[kLanes], Places& places) {
  __m256i halves[kLanes];
  for (int r = 0; r < kLanes; ++r) halves[r] = half_of_group<F, H>(rows[r]);
  const __m256i even = _mm256_set1_epi8(0x33), odd = _mm256_set1_epi8(static_cast<char>(0xcc)),
                low = _mm256_set1_epi8(0xf);
  const auto* bytes = reinterpret_cast<const __m128i*>(halves);
  for (int part = 0; part < 2; ++part) {
    __m256i r[16];
    for (int i = 0; i < 16; ++i) r[i] = _mm256_set_m128i(bytes[2 * (i + 16) + part], bytes[2 * i + part]);
    transpose_bytes(r);
    for (int i = 0; i < 8; ++i) {
      const __m256i a = r[2 * i], b = r[2 * i + 1];
      const __m256i first = _mm256_or_si256(_mm256_and_si256(a, even), _mm256_slli_epi16(_mm256_and_si256(b, even), 2));
      const __m256i second = _mm256_or_si256(_mm256_and_si256(_mm256_srli_epi16(a, 2), even), _mm256_and_si256(b, odd));
      const int pair = 8 * part + i;
      places.at[0][pair] = _mm256_and_si256(first, low);
      places.at[1][pair] = _mm256_and_si256(second, low);
      places.at[2][pair] = _mm256_and_si256(_mm256_srli_epi16(first, 4), low);
      places.at[3][pair] = _mm256_and_si256(_mm256_srli_epi16(second, 4), low);
    }
  }
}

/// Sums of a run for 32 rows, 16 bits each: rows 0 ... 7 and 16 ... 23, then the others.
ETNA_INLINE void look_up(const __m256i (&places)[kPairs], const std::byte* tables, __m256i (&sums)[2]) {
  const __m256i none = _mm256_setzero_si256();
  __m256i highs = none, lows[2] = {none, none};
  for (int i = 0; i < kPairs; i += 4) {
    __m256i four = none;
    for (int k = i; k < i + 4; ++k) {
      const __m256i low = _mm256_broadcastsi128_si256(load16(tables + kPairBytes * k)),
                    high = _mm256_broadcastsi128_si256(load16(tables + kPairBytes * k + 16));
      four = _mm256_add_epi8(four, _mm256_shuffle_epi8(low, places[k]));
      highs = _mm256_add_epi8(highs, _mm256_shuffle_epi8(high, places[k]));
    }
    lows[0] = _mm256_add_epi16(lows[0], _mm256_unpacklo_epi8(four, none));
    lows[1] = _mm256_add_epi16(lows[1], _mm256_unpackhi_epi8(four, none));
  }
  sums[0] = _mm256_add_epi16(lows[0], _mm256_srai_epi16(_mm256_unpacklo_epi8(none, highs), 2));
  sums[1] = _mm256_add_epi16(lows[1], _mm256_srai_epi16(_mm256_unpackhi_epi8(none, highs), 2));
}

ETNA_INLINE __m256 floats(const std::uint16_t (&f16s)[8]) { return _mm256_cvtph_ps(load16(f16s)); }
ETNA_INLINE void add_products(const __m256i (&places)[kPairs], const std::byte* tables, const __m256 (&scales)[4],
                              float scale, float* sums) {
  __m256i found[2];
  look_up(places, tables, found);
  for (int v = 0; v < 4; ++v) {
    const __m128i eight = v % 2 == 0 ? _mm256_castsi256_si128(found[v / 2]) : _mm256_extracti128_si256(found[v / 2], 1);
    const __m256 products = _mm256_cvtepi32_ps(_mm256_cvtepi16_epi32(eight)), own = _mm256_set1_ps(scale);
    float* to = sums + 8 * v;
    _mm256_store_ps(to, _mm256_fmadd_ps(products, _mm256_mul_ps(scales[v], own), _mm256_load_ps(to)));
  }
}

/// Fills the tables of [groups, rows of x], 8 runs of 16 pairs each.
void fill(const QuantizedGroup* groups, std::int64_t count, std::byte* to) {
  // Index p is quant p % 4 of the first element and p / 4 of the second; a quant is its value plus 1.
  const __m256i first = _mm256_setr_epi16(-1, 0, 1, 2, -1, 0, 1, 2, -1, 0, 1, 2, -1, 0, 1, 2);
  const __m256i second = _mm256_setr_epi16(-1, -1, -1, -1, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2);
  for (std::int64_t g = 0; g < count; ++g) {
    for (int pair = 0; pair < kGroup / 2; ++pair, to += kPairBytes) {
      const std::int8_t* quants = groups[g].quants + 2 * pair;
      const __m256i sums = _mm256_add_epi16(_mm256_mullo_epi16(first, _mm256_set1_epi16(quants[0])),
                                            _mm256_mullo_epi16(second, _mm256_set1_epi16(quants[1])));
      const __m256i lows = _mm256_and_si256(sums, _mm256_set1_epi16(63)), highs = _mm256_srai_epi16(sums, 6);
      // 8 lows and 8 highs in each lane, to 16 of each
      const __m256i bytes = _mm256_permute4x64_epi64(_mm256_packs_epi16(lows, highs), 0xd8);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), bytes);
    }
  }
}

/// Adds the sums of half H of a group. @param sums [rows of x, kLanes]
template <typename F, int H>
ETNA_INLINE void add_half(const std::byte* const (&rows)[kLanes], const QuantizedGroup* x, const std::byte* tables,
                          std::int64_t tokens, float* sums) {
  Places places;
  find_places<F, H>(rows, places);
  __m256 scales[4];
  for (int place = 0; place < 4; ++place) {
    const int c = 4 * H + run_at<F>(place);
    if (place == 0) {
      std::uint16_t f16s[4][kLanes / 4];
      for (int i = 0; i < kLanes; ++i)
        f16s[i / (kLanes / 4)][i % (kLanes / 4)] = f16_scale<F>(rows[kOrder[i / 8] + i % 8]);
      for (int v = 0; v < 4; ++v) scales[v] = floats(f16s[v]);
    }
    const std::byte* own = tables + static_cast<std::size_t>(c) * (kTableBytes / 8);
    for (std::int64_t m = 0; m < tokens; ++m) {
      add_products(places.at[place], own + static_cast<std::size_t>(m) * kTableBytes, scales, x[m].run_scales[c],
                   sums + kLanes * m);
    }
  }
}

template <typename F>
void multiply(const std::byte* rows, std::size_t row_bytes, std::int64_t count, std::int64_t columns,
              const QuantizedActivations& x, const std::byte* tables, float* out, std::int64_t step) {
  constexpr std::int64_t kTogether = 16;
  const std::int64_t groups = (columns + kGroup - 1) / kGroup;
  alignas(64) float sums[kTogether * kLanes];
  for (std::int64_t first = 0; first < x.rows; first += kTogether) {
    const std::int64_t some = std::min(kTogether, x.rows - first);
    std::memset(sums, 0, sizeof sums);
    for (std::int64_t g = 0; g < groups; ++g) {
      if (first == 0) prefetch_share(rows + kLanes * row_bytes, kLanes * row_bytes, g, groups);
      const TernaryRows<F, kLanes> own(rows, row_bytes, count, columns, g);
      const std::byte* from = tables + static_cast<std::size_t>(g * x.rows + first) * kTableBytes;
      add_half<F, 0>(own.at, x.at(first, g), from, some, sums);
      add_half<F, 1>(own.at, x.at(first, g), from, some, sums);
    }
    for (std::int64_t m = 0; m < some; ++m) {
      for (int v = 0; v < kLanes / 8; ++v) {
        const std::int64_t left = std::min<std::int64_t>(8, count - kOrder[v]);
        for (std::int64_t i = 0; i < left; ++i) out[(first + m) * step + kOrder[v] + i] = sums[kLanes * m + 8 * v + i];
      }
    }
  }
}

template <typename F>
LookupTables kernels_of(std::int64_t least) {
  return {kLanes, kTableBytes, least, fill, multiply<F>};
}

}  // namespace

LookupTables lookup_tables(std::string_view format) {
  if (format == "TQ1_0") return kernels_of<TQ1_0>(5);
  if (format == "TQ2_0") return kernels_of<TQ2_0>(6);
  if (format == "I2_S") return kernels_of<I2_S>(6);
  return {};
}

}  // namespace etna::quantized::avx2

ETNA_END_TARGET

#endif
