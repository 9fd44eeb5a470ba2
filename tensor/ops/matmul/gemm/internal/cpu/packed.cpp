// f32 gemms for builds without oneDNN and OpenBLAS. Bound by arithmetic. A panel of kVectors vectors of columns of b is
// packed and stays in the L1 cache while rows of a stream from the L2 cache. If the processor has enough general
// registers for one pointer per row of a tile, rows of a that run along k are read in place; otherwise they are packed
// as well.
#include <etna/tensor/ops/matmul/gemm/internal/cpu/libraries.h>

#include <algorithm>

#include <fmt/format.h>

#include <etna/device/internal/cpu/scratch.h>
#include <etna/device/internal/cpu/transpose.h>
#include <etna/device/internal/cpu/vector_rows.h>

// GCC 12 mistakes the undefined registers of its own AVX-512 intrinsics for uninitialized variables.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE <etna/tensor/ops/matmul/gemm/internal/cpu/packed.cpp>
#include <hwy/foreach_target.h>
// Must come after foreach_target.h.
#include <hwy/highway.h>

#include <etna/tensor/ops/matmul/gemm/internal/cpu/tile.inc>

HWY_BEFORE_NAMESPACE();
namespace etna::cpu::HWY_NAMESPACE {

// A panel of b fills half of an L1 cache of 32 KiB, or, with 16 floats per vector, all of it. A block is [kBlockRows,
// kDepth] of a and [kDepth, kBlockColumns] of b. With vectors of one float, a panel as large as the cache allows would
// be 2048 deep, and such long sums lose digits.
constexpr std::int64_t kDepth = std::clamp<std::int64_t>(4096 / kColumns, 256, 512), kBlockRows = 240,
                       kBlockColumns = 512;
constexpr bool kReadsRows = kRows <= 6;

/// Packs `count` rows of op(a), or columns of op(b), into panels [depth, Width], zero-padded.
/// @param along_k true if a row of x runs along k
template <std::int64_t Width>
void pack(const float* x, std::int64_t leading, bool along_k, std::int64_t count, std::int64_t depth, float* to) {
  for (std::int64_t i = 0; i < count; i += Width, to += depth * Width) {
    const std::int64_t n = std::min(Width, count - i);
    if (n < Width) std::fill_n(to, depth * Width, 0.0f);
    if (along_k) {
      transpose(x + i * leading, leading, to, Width, depth, n, sizeof(float));
    } else if (n == Width) {
      for (std::int64_t k = 0; k < depth; ++k) std::copy_n(x + k * leading + i, Width, to + k * Width);
    } else {
      for (std::int64_t k = 0; k < depth; ++k) std::copy_n(x + k * leading + i, n, to + k * Width);
    }
  }
}

/// The largest block size, at most `most` and a multiple of `unit`, that divides n evenly.
std::int64_t even_block(std::int64_t n, std::int64_t most, std::int64_t unit) {
  const std::int64_t blocks = (n + most - 1) / most, even = (n + blocks - 1) / blocks;
  return (even + unit - 1) / unit * unit;
}

void multiply_f32(const Gemm& g, float alpha, const float* a, const float* b, float beta, float* c) {
  const std::int64_t depth = even_block(g.k, kDepth, 1), rows = even_block(g.m, kBlockRows, kRows),
                     columns = even_block(g.n, kBlockColumns, kColumns);
  const bool reads_rows = kReadsRows && !g.transpose_a;
  Scratch<float> packed_a(static_cast<std::size_t>(reads_rows ? 0 : rows * depth));
  Scratch<float> packed_b(static_cast<std::size_t>(columns * depth));
  for (std::int64_t j = 0; j < g.n; j += columns) {
    const std::int64_t n = std::min(columns, g.n - j);
    for (std::int64_t p = 0; p < g.k; p += depth) {
      const std::int64_t k = std::min(depth, g.k - p);
      pack<kColumns>(g.transpose_b ? b + j * g.ldb + p : b + p * g.ldb + j, g.ldb, g.transpose_b, n, k,
                     packed_b.data());
      for (std::int64_t i = 0; i < g.m; i += rows) {
        const std::int64_t m = std::min(rows, g.m - i);
        if (!reads_rows)
          pack<kRows>(g.transpose_a ? a + p * g.lda + i : a + i * g.lda + p, g.lda, !g.transpose_a, m, k,
                      packed_a.data());
        for (std::int64_t v = 0; v < n; v += kColumns) {
          for (std::int64_t u = 0; u < m; u += kRows) {
            const std::int64_t tile_rows = std::min<std::int64_t>(kRows, m - u);
            const Target t{alpha, p == 0 ? beta : 1.0f, c + (i + u) * g.ldc + j + v, g.ldc};
            const float *from[kRows] = {packed_a.data() + u * k}, *panel = packed_b.data() + v * k;
            if (!reads_rows) {
              any_tile<true>(tile_rows, {.depth = k, .a_step = kRows}, from, panel, t, std::min(kColumns, n - v));
              continue;
            }
            for (std::int64_t r = 0; r < tile_rows; ++r) from[r] = a + (i + u + r) * g.lda + p;
            any_tile<false>(tile_rows, {.depth = k}, from, panel, t, std::min(kColumns, n - v));
          }
        }
      }
    }
  }
}

bool has_vectors() { return kColumns > kVectors; }

}  // namespace etna::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace etna::cpu {
namespace {

HWY_EXPORT(multiply_f32);
HWY_EXPORT(has_vectors);

void multiply(const Gemm& g, float alpha, const float* a, const float* b, float beta, float* c) {
  HWY_DYNAMIC_DISPATCH(multiply_f32)(g, alpha, a, b, beta, c);
}

}  // namespace

const Library& packed() {
  static const Library library{.f32 = multiply, .name = fmt::format("Etna ({})", vector_target())};
  return library;
}

bool packed_has_vectors() { return HWY_DYNAMIC_DISPATCH(has_vectors)(); }

}  // namespace etna::cpu
#endif
