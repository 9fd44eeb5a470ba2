// Skinny gemms: up to eight rows times a large matrix, as in generating a token. Bytes-bound. The libraries pack their
// operands, which costs one more pass over a matrix that is used once (a row times 68 MB on one core: 12 GB/s here, 9
// by oneDNN, 4 by OpenBLAS). Here only the few rows are packed, and the matrix is streamed. If its rows run along k,
// each is multiplied with all of the few rows; if they run across k, several at once are added to a chunk of the
// results that stays in L1.
#include <etna/tensor/ops/matmul/gemm/internal/cpu/skinny.h>

#include <algorithm>
#include <bit>

#include <etna/device/internal/cpu/parallel.h>
#include <etna/device/internal/cpu/scratch.h>
#include <etna/tensor/ops/matmul/gemm/internal/cpu/flush_subnormals.h>

// GCC 12 mistakes the undefined registers of its own AVX-512 intrinsics for uninitialized variables.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE <etna/tensor/ops/matmul/gemm/internal/cpu/skinny.cpp>
#include <hwy/foreach_target.h>
// Must come after foreach_target.h.
#include <hwy/highway.h>

#ifndef ETNA_THIN_SIZES
#define ETNA_THIN_SIZES
namespace etna::cpu {

inline constexpr std::int64_t kBlock = 64;      // floats: a multiple of any vector's length
inline constexpr std::int64_t kResults = 4096;  // per chunk: they stay in L1
/// Chunk size for one of `rows` rows: whole vectors, so that padding after a row's end belongs to no other row. Several
/// rows reread a chunk of w, so it must stay in L1 together with them.
constexpr std::int64_t chunk_of(std::int64_t rows) { return rows == 1 ? kResults : rows == 2 ? 512 : 256; }

/// y[i, j] = Σₖ x[i, k] · w[j, k] or w[k, j], for columns j of a range.
template <typename S>
struct Skinny {
  const float* x = nullptr;  ///< [k / kBlock, rows, kBlock], zero-padded
  const S* w = nullptr;      ///< row stride `leading`
  std::int64_t leading = 0;
  std::int64_t rows = 0, k = 0;
  float* y = nullptr;
  std::int64_t row_step = 0, column_step = 0;  ///< in elements, between results
  float alpha = 1, beta = 0;

  static std::int64_t x_at(std::int64_t rows, std::int64_t i, std::int64_t k) {
    return (k / kBlock * rows + i) * kBlock + k % kBlock;
  }
  void store(std::int64_t i, std::int64_t j, float sum) const {
    float& to = y[i * row_step + j * column_step];
    to = beta == 0 ? alpha * sum : alpha * sum + beta * to;
  }
};

}  // namespace etna::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace etna::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

HWY_INLINE V load(const float* x) { return hn::LoadU(D(), x); }
HWY_INLINE V load(const Bf16* x) {
  const hn::RebindToUnsigned<D> d32;
  const hn::Rebind<std::uint16_t, D> d16;
  return hn::BitCast(D(), hn::ShiftLeft<16>(hn::PromoteTo(d32, hn::LoadU(d16, x))));
}
/// Loads n < Lanes() elements, zero-padded.
template <typename S>
HWY_INLINE V load_part(const S* x, std::int64_t n) {
  HWY_ALIGN S part[hn::MaxLanes(D())] = {};
  std::copy_n(x, n, part);
  return load(part);
}

/// Column j as the dot products of row j of w with the few rows, `Along` vectors at once.
template <int Rows, int Along, typename S>
HWY_INLINE void dots(const Skinny<S>& t, std::int64_t j) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(D()));
  V sums[Rows][Along];
  HWY_UNROLL(8) for (auto& row : sums) { HWY_UNROLL(8) for (V& s : row) s = hn::Zero(D()); }
  const S* w = t.w + j * t.leading;
  const float* x = t.x;
  std::int64_t k = 0;
  for (; k + kBlock <= t.k; k += kBlock, x += Rows * kBlock) {
    for (std::int64_t b = 0; b < kBlock; b += Along * lanes) {
      HWY_UNROLL(8) for (int v = 0; v < Along; ++v) {
        const V of = load(w + k + b + v * lanes);
        HWY_UNROLL(8)
        for (int r = 0; r < Rows; ++r)
          sums[r][v] = hn::MulAdd(hn::LoadU(D(), x + r * kBlock + b + v * lanes), of, sums[r][v]);
      }
    }
  }
  for (std::int64_t b = 0; k + b < t.k; b += lanes) {
    const V of = k + b + lanes <= t.k ? load(w + k + b) : load_part(w + k + b, t.k - k - b);
    HWY_UNROLL(8)
    for (int r = 0; r < Rows; ++r) sums[r][0] = hn::MulAdd(hn::LoadU(D(), x + r * kBlock + b), of, sums[r][0]);
  }
  HWY_UNROLL(8) for (int r = 0; r < Rows; ++r) {
    HWY_UNROLL(8) for (int v = 1; v < Along; ++v) sums[r][0] = hn::Add(sums[r][0], sums[r][v]);
    t.store(r, j, hn::GetLane(hn::SumOfLanes(D(), sums[r][0])));
  }
}

template <int Rows, typename S>
void along_rows(const Skinny<S>& t, std::int64_t first, std::int64_t last) {
  // About eight sums at once, as many as can be in flight. Reading several rows of w would make several memory streams,
  // which processors prefetch at less than half the speed (eight of 2 KiB, on one core from memory: 12 GB/s; one: 28),
  // so one row is read at a time.
  constexpr int kMost = std::max(1, static_cast<int>(kBlock / hn::MaxLanes(D())));
  constexpr int kAlong = std::min(kMost, Rows == 1 ? 8 : Rows == 2 ? 4 : Rows <= 4 ? 2 : 1);
  for (std::int64_t j = first; j < last; ++j) dots<Rows, kAlong>(t, j);
}

template <typename S>
void along(const Skinny<S>& t, std::int64_t first, std::int64_t last) {
  switch (t.rows) {
    case 1:
      return along_rows<1>(t, first, last);
    case 2:
      return along_rows<2>(t, first, last);
    case 3:
      return along_rows<3>(t, first, last);
    case 4:
      return along_rows<4>(t, first, last);
    case 5:
      return along_rows<5>(t, first, last);
    case 6:
      return along_rows<6>(t, first, last);
    case 7:
      return along_rows<7>(t, first, last);
    default:
      return along_rows<8>(t, first, last);
  }
}

/// sums[i, 0 .. n) += Σ x[i, k + q] · w[k + q, j + 0 .. n), q < Depth
template <int Depth, typename S>
HWY_INLINE void add_rows(const Skinny<S>& t, std::int64_t k, std::int64_t j, std::int64_t n, float* sums) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(D()));
  const S* w = t.w + k * t.leading + j;
  for (std::int64_t i = 0; i < t.rows; ++i) {
    V x[Depth];
    for (int q = 0; q < Depth; ++q) x[q] = hn::Set(D(), t.x[t.x_at(t.rows, i, k + q)]);
    float* to = sums + i * chunk_of(t.rows);
    auto add = [&](std::int64_t c, auto&& loaded) HWY_ATTR {
      V sum = hn::LoadU(D(), to + c);
      for (int q = 0; q < Depth; ++q) sum = hn::MulAdd(x[q], loaded(w + q * t.leading + c), sum);
      hn::StoreU(sum, D(), to + c);
    };
    std::int64_t c = 0;
    for (; c + lanes <= n; c += lanes) add(c, [](const S* from) HWY_ATTR { return load(from); });
    if (c < n) add(c, [&](const S* from) HWY_ATTR { return load_part(from, n - c); });
  }
}

template <typename S>
void across(const Skinny<S>& t, std::int64_t first, std::int64_t last) {
  constexpr int kDepth = sizeof(S) == 2 ? 4 : 8;  // bf16 needs registers for its conversion
  HWY_ALIGN float sums[kResults];
  const std::int64_t chunk = chunk_of(t.rows);
  for (std::int64_t j = first; j < last; j += chunk) {
    const std::int64_t n = std::min(chunk, last - j);
    std::fill_n(sums, t.rows * chunk, 0.0f);
    std::int64_t k = 0;
    for (; k + kDepth <= t.k; k += kDepth) add_rows<kDepth>(t, k, j, n, sums);
    for (; k < t.k; ++k) add_rows<1>(t, k, j, n, sums);
    for (std::int64_t i = 0; i < t.rows; ++i) {
      for (std::int64_t c = 0; c < n; ++c) t.store(i, j + c, sums[i * chunk + c]);
    }
  }
}

void along_f32(const Skinny<float>& t, std::int64_t first, std::int64_t last) { along(t, first, last); }
void along_bf16(const Skinny<Bf16>& t, std::int64_t first, std::int64_t last) { along(t, first, last); }
void across_f32(const Skinny<float>& t, std::int64_t first, std::int64_t last) { across(t, first, last); }
void across_bf16(const Skinny<Bf16>& t, std::int64_t first, std::int64_t last) { across(t, first, last); }

}  // namespace etna::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace etna::cpu {
namespace {

HWY_EXPORT(along_f32);
HWY_EXPORT(along_bf16);
HWY_EXPORT(across_f32);
HWY_EXPORT(across_bf16);

void along(const Skinny<float>& t, std::int64_t first, std::int64_t last) {
  HWY_DYNAMIC_DISPATCH(along_f32)(t, first, last);
}
void along(const Skinny<Bf16>& t, std::int64_t first, std::int64_t last) {
  HWY_DYNAMIC_DISPATCH(along_bf16)(t, first, last);
}
void across(const Skinny<float>& t, std::int64_t first, std::int64_t last) {
  HWY_DYNAMIC_DISPATCH(across_f32)(t, first, last);
}
void across(const Skinny<Bf16>& t, std::int64_t first, std::int64_t last) {
  HWY_DYNAMIC_DISPATCH(across_bf16)(t, first, last);
}

float widened(float x) { return x; }
float widened(Bf16 x) { return std::bit_cast<float>(static_cast<std::uint32_t>(x) << 16); }

constexpr std::int64_t kTaskBytes = 128 << 10;  // of w: a smaller task is not worthwhile
constexpr std::int64_t kTaskColumns = 64;       // of a w whose rows run across k: fewer would make reads too short

}  // namespace

template <typename S>
void multiply_skinny(const Gemm& g, float alpha, const S* a, const S* b, float beta, float* c, bool all_threads,
                     const Finish& finish) {
  // The few rows are those of op(a), or, if c has few columns, those of op(b) transposed.
  const bool few_rows = g.m <= kMostSkinnyRows;
  const S* few = few_rows ? a : b;
  const std::int64_t few_leading = few_rows ? g.lda : g.ldb, columns = few_rows ? g.n : g.m;
  const bool few_across = few_rows ? g.transpose_a : !g.transpose_b,
             w_along = few_rows ? g.transpose_b : !g.transpose_a;
  Skinny<S> t;
  t.rows = few_rows ? g.m : g.n;
  t.k = g.k;
  Scratch<float> packed(static_cast<std::size_t>(t.rows * ((g.k + kBlock - 1) / kBlock * kBlock)), 0.0f);
  for (std::int64_t i = 0; i < t.rows; ++i) {
    for (std::int64_t k = 0; k < g.k; ++k) {
      packed[static_cast<std::size_t>(t.x_at(t.rows, i, k))] =
          widened(few_across ? few[k * few_leading + i] : few[i * few_leading + k]);
    }
  }
  t.x = packed.data();
  t.w = few_rows ? b : a;
  t.leading = few_rows ? g.ldb : g.lda;
  t.y = c;
  t.row_step = few_rows ? g.ldc : 1;
  t.column_step = few_rows ? 1 : g.ldc;
  t.alpha = alpha;
  t.beta = beta;
  auto range = [&](std::int64_t first, std::int64_t last) {
    {
      FlushSubnormals flush;
      w_along ? along(t, first, last) : across(t, first, last);
    }
    if (!finish) return;
    finish(few_rows ? ResultTile{0, g.m, first, last - first} : ResultTile{first, last - first, 0, g.n});
  };
  if (!all_threads) return range(0, columns);
  const std::int64_t bytes = g.k * static_cast<std::int64_t>(sizeof(S));
  parallel_for(columns, std::max(w_along ? 8 : kTaskColumns, kTaskBytes / std::max<std::int64_t>(1, bytes)), range);
}

template void multiply_skinny(const Gemm& g, float alpha, const float* a, const float* b, float beta, float* c,
                              bool all_threads, const Finish& finish);
template void multiply_skinny(const Gemm& g, float alpha, const Bf16* a, const Bf16* b, float beta, float* c,
                              bool all_threads, const Finish& finish);

}  // namespace etna::cpu
#endif
