#include <etna/tensor/ops/matmul/gemm/internal/cpu/blas.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include <etna/device/error.h>
#include <etna/device/internal/counting.h>
#include <etna/device/internal/cpu/parallel.h>
#include <etna/device/internal/cpu/scratch.h>
#include <etna/device/internal/cpu/vector_rows.h>
#include <etna/tensor/internal/capture_hooks.h>
#include <etna/tensor/ops/matmul/gemm/internal/cpu/flush_subnormals.h>
#include <etna/tensor/ops/matmul/gemm/internal/cpu/libraries.h>
#include <etna/tensor/ops/matmul/gemm/internal/cpu/skinny.h>
#include <etna/tensor/ops/matmul/gemm/internal/cpu/tiling.h>

namespace etna::cpu {
namespace {

/// The library's gemm for operands S and sums T.
template <typename S, typename T>
OneThread<T, S> kernel_of(const Library& library) {
  if constexpr (std::is_same_v<S, Bf16>)
    return library.bf16;
  else if constexpr (std::is_same_v<S, float>)
    return library.f32;
  else
    return library.f64;
}

/// The first library with a gemm for T, or the one that ETNA_BLAS names.
template <typename T>
const Library& choose() {
  const char* named = std::getenv("ETNA_BLAS");
  std::string_view name = named == nullptr ? "" : named;
  if (!name.empty() && name != "onednn" && name != "openblas" && name != "packed" && name != "eigen") {
    throw DeviceError(fmt::format("ETNA_BLAS={}: must be onednn, openblas, packed or eigen, or be unset", name));
  }
  if (name.empty() || name == "onednn") {
    if (kernel_of<T, T>(onednn()) != nullptr) return onednn();
  }
  if ((name.empty() || name == "onednn" || name == "openblas") && kernel_of<T, T>(openblas()) != nullptr) {
    return openblas();
  }
  const bool may_be_packed = name == "packed" || (name != "eigen" && packed_has_vectors());
  if (may_be_packed && kernel_of<T, T>(packed()) != nullptr) return packed();
  return eigen();
}

template <typename T>
const Library& chosen() {
  static const Library& library = choose<T>();
  return library;
}

template <typename T>
void blas_scale(const Gemm& g, T beta, T* c) {
  for (std::int64_t i = 0; i < g.m; ++i) {
    T* row = c + i * g.ldc;
    if (beta == T(0)) {
      std::fill_n(row, g.n, T(0));
    } else if (beta != T(1)) {
      for (std::int64_t j = 0; j < g.n; ++j) row[j] *= beta;
    }
  }
}

template <typename S, typename T>
void one_thread(const Gemm& g, T alpha, const S* a, const S* b, T beta, T* c) {
  if (g.m <= 0 || g.n <= 0) return;
  if (g.k <= 0) return blas_scale(g, beta, c);
  std::optional<FlushSubnormals> flush;
  if constexpr (std::is_same_v<T, float>) {
    if (is_skinny(g)) return multiply_skinny(g, alpha, a, b, beta, c, false, {});
    flush.emplace();
  }
  const Library& library = chosen<T>();
  if (auto multiply = kernel_of<S, T>(library)) return multiply(g, alpha, a, b, beta, c);
  if constexpr (std::is_same_v<S, Bf16>) multiply_widened(library.f32, g, alpha, a, b, beta, c);
}

/// c += the partial sums of split-K, in order. @param partial [splits - 1, m, n]
template <typename T>
void add_partial(const Gemm& g, const ResultTile& tile, const T* partial, std::int64_t splits, T* c) {
  for (std::int64_t i = tile.row; i < tile.row + tile.rows; ++i) {
    T* to = c + i * g.ldc + tile.column;
    for (std::int64_t s = 1; s < splits; ++s) {
      const T* from = partial + ((s - 1) * g.m + i) * g.n + tile.column;
      for (std::int64_t j = 0; j < tile.columns; ++j) to[j] += from[j];
    }
  }
}

template <typename T>
constexpr const char* kElement = std::is_same_v<T, Bf16>    ? "bf16"
                                 : std::is_same_v<T, float> ? "f32"
                                                            : "f64";

/// Called where somebody counts.
template <typename S, typename T>
void count_gemm(bool skinny) {
  const std::string kernel = fmt::format("{}gemm {}", skinny ? "skinny " : "", kElement<S>);
  counting::ran(counting::row({kCPU, kernel, capture_hooks::Running::name()}, [&]() -> std::string {
    if (skinny) return vector_target();
    const Library& library = chosen<T>();
    return library.name + (kernel_of<S, T>(library) == nullptr ? ", widened to f32" : "");
  }));
}

template <typename S, typename T>
void on_all_threads(const Gemm& g, T alpha, const S* a, const S* b, T beta, T* c, const Finish& finish) {
  if (g.m <= 0 || g.n <= 0) return;
  if constexpr (std::is_same_v<T, float>) {
    if (is_skinny(g) && g.k > 0) {
      if (counting::on()) count_gemm<S, T>(true);
      return multiply_skinny(g, alpha, a, b, beta, c, true, finish);
    }
  }
  if (counting::on()) count_gemm<S, T>(false);
  const Tiling tiling = choose_tiling(g, workers());
  const std::int64_t down = (g.m + tiling.rows - 1) / tiling.rows, across = (g.n + tiling.columns - 1) / tiling.columns;
  auto tile_of = [&](std::int64_t index) {
    ResultTile p;
    p.row = index % down * tiling.rows;
    p.column = index / down * tiling.columns;
    p.rows = std::min(tiling.rows, g.m - p.row);
    p.columns = std::min(tiling.columns, g.n - p.column);
    return p;
  };
  Scratch<T> partial(static_cast<std::size_t>((tiling.splits - 1) * g.m * g.n));
  const std::int64_t tiles = down * across;
  for_each_task(tiles * tiling.splits, [&](std::int64_t task) {
    const ResultTile p = tile_of(task % tiles);
    const std::int64_t split = task / tiles, k = split * tiling.depth;
    Gemm block = g;
    block.m = p.rows;
    block.n = p.columns;
    block.k = std::min(tiling.depth, g.k - k);
    const S* from_a = g.transpose_a ? a + k * g.lda + p.row : a + p.row * g.lda + k;
    const S* from_b = g.transpose_b ? b + p.column * g.ldb + k : b + k * g.ldb + p.column;
    if (split == 0) {
      one_thread(block, alpha, from_a, from_b, beta, c + p.row * g.ldc + p.column);
    } else {
      block.ldc = g.n;
      one_thread(block, alpha, from_a, from_b, T(0), partial.data() + ((split - 1) * g.m + p.row) * g.n + p.column);
    }
    if (tiling.splits == 1 && finish) finish(p);
  });
  if (tiling.splits == 1) return;
  parallel_for(g.m, std::max<std::int64_t>(1, 16384 / g.n), [&](std::int64_t begin, std::int64_t end) {
    const ResultTile rows{begin, end - begin, 0, g.n};
    add_partial(g, rows, partial.data(), tiling.splits, c);
    if (finish) finish(rows);
  });
}

}  // namespace

void gemm(const Gemm& g, float alpha, const float* a, const float* b, float beta, float* c, const Finish& finish) {
  on_all_threads(g, alpha, a, b, beta, c, finish);
}
void gemm(const Gemm& g, double alpha, const double* a, const double* b, double beta, double* c, const Finish& finish) {
  on_all_threads(g, alpha, a, b, beta, c, finish);
}
void gemm(const Gemm& g, float alpha, const Bf16* a, const Bf16* b, float beta, float* c, const Finish& finish) {
  on_all_threads(g, alpha, a, b, beta, c, finish);
}

void gemm_one_thread(const Gemm& g, float alpha, const float* a, const float* b, float beta, float* c) {
  one_thread(g, alpha, a, b, beta, c);
}
void gemm_one_thread(const Gemm& g, double alpha, const double* a, const double* b, double beta, double* c) {
  one_thread(g, alpha, a, b, beta, c);
}
void gemm_one_thread(const Gemm& g, float alpha, const Bf16* a, const Bf16* b, float beta, float* c) {
  one_thread(g, alpha, a, b, beta, c);
}

bool multiplies_bf16() { return chosen<float>().bf16 != nullptr; }
bool multiplies_bf16(std::int64_t m, std::int64_t n) { return multiplies_bf16() || std::min(m, n) <= kMostSkinnyRows; }

std::string f32_kernels() { return chosen<float>().name; }
std::string f64_kernels() { return chosen<double>().name; }
std::string bf16_kernels() { return f32_kernels() + (multiplies_bf16() ? "" : ", widened to f32"); }

}  // namespace etna::cpu
