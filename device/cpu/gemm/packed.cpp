// f32 gemms of builds without oneDNN and OpenBLAS. Bound by arithmetic. Both operands are packed into panels that the
// tile's loop reads one after the other: op(a) by kRows rows, op(b) by kVectors vectors of columns, both by chunks of k.
// A panel of b stays in the L1 cache while the block of a streams from the L2 cache. A tile of c stays in registers:
// its sums, a step's vectors of b, one element of a, and where there is no FMA a product.
#include <etna/device/cpu/gemm/libraries.h>

#include <algorithm>

#include <fmt/format.h>

#include <etna/device/cpu/scratch.h>
#include <etna/device/cpu/transpose.h>
#include <etna/device/cpu/vector_rows.h>

// GCC 12 mistakes the undefined registers of its own AVX-512 intrinsics for uninitialized variables.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE <etna/device/cpu/gemm/packed.cpp>
#include <hwy/foreach_target.h>
// Must come after foreach_target.h.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace etna::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

// The tile: kRows rows by kVectors vectors.
#if HWY_TARGET == HWY_SCALAR
constexpr int kRows = 4, kVectors = 4;
#elif HWY_TARGET == HWY_WASM
constexpr int kRows = 4, kVectors = 2;
#elif HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
constexpr int kRows = 12, kVectors = 2;
#elif HWY_TARGET == HWY_NEON
constexpr int kRows = 8, kVectors = 2;
#elif HWY_TARGET == HWY_AVX2
constexpr int kRows = 6, kVectors = 2;
#else
constexpr int kRows = 4, kVectors = 2;
#endif
constexpr int kStepsAtOnce = HWY_TARGET == HWY_WASM ? 1 : 4;
constexpr std::int64_t kColumns = kVectors * static_cast<std::int64_t>(hn::MaxLanes(D()));

// Of a block: [kBlockRows, kDepth] of a and [kDepth, kBlockColumns] of b, half a MiB at most each.
constexpr std::int64_t kDepth = 256, kBlockRows = 240, kBlockColumns = 512;

/// What a tile of c becomes: alpha · sums + beta · c.
struct Target {
  float alpha = 1, beta = 0;
  float* c = nullptr;
  std::int64_t leading = 0;
};

HWY_INLINE V combined(const Target& t, V sum, const float* c) {
  const D d;
  const V scaled = hn::Mul(hn::Set(d, t.alpha), sum);
  return t.beta == 0 ? scaled : hn::MulAdd(hn::Set(d, t.beta), hn::LoadU(d, c), scaled);
}

/// @param a [k, kRows]   @param b [k, kColumns]   @param columns of c that there are, the rest is not written
template <int Rows, int Vectors>
HWY_INLINE void tile(std::int64_t depth, const float* a, const float* b, const Target& t, std::int64_t columns) {
  const D d;
  const std::size_t lanes = hn::Lanes(d);
  V sums[Rows][Vectors];
  HWY_UNROLL(16) for (auto& row : sums) { HWY_UNROLL(4) for (V& s : row) s = hn::Zero(d); }
  auto step = [&](const float* x, const float* w) HWY_ATTR {
    V of[Vectors];
    HWY_UNROLL(4) for (int v = 0; v < Vectors; ++v) of[v] = hn::LoadU(d, w + static_cast<std::size_t>(v) * lanes);
    HWY_UNROLL(16) for (int r = 0; r < Rows; ++r) {
      const V one = hn::Set(d, x[r]);
      HWY_UNROLL(4) for (int v = 0; v < Vectors; ++v) sums[r][v] = hn::MulAdd(one, of[v], sums[r][v]);
    }
  };
  constexpr int kUnroll = kStepsAtOnce;
  std::size_t k = static_cast<std::size_t>(depth);
  for (; k >= kUnroll; k -= kUnroll, a += kUnroll * kRows, b += kUnroll * kColumns) {
    HWY_UNROLL(4) for (int q = 0; q < kUnroll; ++q) step(a + q * kRows, b + q * kColumns);
  }
  if constexpr (kUnroll > 1) {
    for (; k > 0; --k, a += kRows, b += kColumns) step(a, b);
  }
  if (columns == static_cast<std::int64_t>(Vectors * lanes)) {
    HWY_UNROLL(16) for (int r = 0; r < Rows; ++r) {
      float* c = t.c + r * t.leading;
      HWY_UNROLL(4) for (int v = 0; v < Vectors; ++v) {
        float* to = c + static_cast<std::size_t>(v) * lanes;
        hn::StoreU(combined(t, sums[r][v], to), d, to);
      }
    }
    return;
  }
  // The same arithmetic on a copy: an element's bits do not depend on where c ends.
  HWY_ALIGN float part[kColumns] = {};
  HWY_UNROLL(16) for (int r = 0; r < Rows; ++r) {
    float* c = t.c + r * t.leading;
    if (t.beta != 0) std::copy_n(c, columns, part);
    HWY_UNROLL(4) for (int v = 0; v < Vectors; ++v) {
      float* to = part + static_cast<std::size_t>(v) * lanes;
      hn::StoreU(combined(t, sums[r][v], to), d, to);
    }
    std::copy_n(part, columns, c);
  }
}

template <int Rows>
void rows_of_tile(std::int64_t depth, const float* a, const float* b, const Target& t, std::int64_t columns) {
  if (columns > kColumns / kVectors)
    tile<Rows, kVectors>(depth, a, b, t, columns);
  else
    tile<Rows, 1>(depth, a, b, t, columns);
}

/// Finds the tile of `rows` rows at compile time.
template <int Rows = kRows>
HWY_INLINE void any_tile(std::int64_t rows, std::int64_t depth, const float* a, const float* b, const Target& t,
                         std::int64_t columns) {
  if constexpr (Rows > 1) {
    if (rows < Rows) return any_tile<Rows - 1>(rows, depth, a, b, t, columns);
  }
  rows_of_tile<Rows>(depth, a, b, t, columns);
}

/// Packs `count` rows of op(a), or columns of op(b), into panels [depth, Width], zero-padded.
/// @param along_k whether a row of x runs along k
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

/// The largest block of at most `most` that splits n evenly, in multiples of `unit`.
std::int64_t even_block(std::int64_t n, std::int64_t most, std::int64_t unit) {
  const std::int64_t blocks = (n + most - 1) / most, even = (n + blocks - 1) / blocks;
  return (even + unit - 1) / unit * unit;
}

void multiply_f32(const Gemm& g, float alpha, const float* a, const float* b, float beta, float* c) {
  const std::int64_t depth = even_block(g.k, kDepth, 1), rows = even_block(g.m, kBlockRows, kRows),
                     columns = even_block(g.n, kBlockColumns, kColumns);
  Scratch<float> packed_a(static_cast<std::size_t>(rows * depth)), packed_b(static_cast<std::size_t>(columns * depth));
  for (std::int64_t j = 0; j < g.n; j += columns) {
    const std::int64_t n = std::min(columns, g.n - j);
    for (std::int64_t p = 0; p < g.k; p += depth) {
      const std::int64_t k = std::min(depth, g.k - p);
      pack<kColumns>(g.transpose_b ? b + j * g.ldb + p : b + p * g.ldb + j, g.ldb, g.transpose_b, n, k,
                     packed_b.data());
      for (std::int64_t i = 0; i < g.m; i += rows) {
        const std::int64_t m = std::min(rows, g.m - i);
        pack<kRows>(g.transpose_a ? a + p * g.lda + i : a + i * g.lda + p, g.lda, !g.transpose_a, m, k,
                    packed_a.data());
        for (std::int64_t v = 0; v < n; v += kColumns) {
          for (std::int64_t u = 0; u < m; u += kRows) {
            const Target t{alpha, p == 0 ? beta : 1.0f, c + (i + u) * g.ldc + j + v, g.ldc};
            any_tile(std::min<std::int64_t>(kRows, m - u), k, packed_a.data() + u * k, packed_b.data() + v * k, t,
                     std::min(kColumns, n - v));
          }
        }
      }
    }
  }
}

}  // namespace etna::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace etna::cpu {
namespace {

HWY_EXPORT(multiply_f32);

void multiply(const Gemm& g, float alpha, const float* a, const float* b, float beta, float* c) {
  HWY_DYNAMIC_DISPATCH(multiply_f32)(g, alpha, a, b, beta, c);
}

}  // namespace

const Library& packed() {
  static const Library library{.f32 = multiply, .name = fmt::format("Etna ({})", vector_target())};
  return library;
}

}  // namespace etna::cpu
#endif
