#pragma once

#include <algorithm>
#include <cstdint>

#include <etna/device/internal/cpu/scratch.h>
#include <etna/tensor/ops/matmul/gemm/internal/cpu/bf16_panels.h>

/// A matrix that is packed once and multiplied many times by a few rows, as in the steps of a recurrent network: each
/// step waits for the one before, so no gemm has more rows than a batch, and a gemm library would pack the matrix again
/// at every step.
namespace etna::cpu {

/// Columns that are loaded together. A panel is a sequence of tiles of this many columns, each k rows high; the last
/// tile of a panel may be half as wide.
inline constexpr std::int64_t kPanelTile = 32;

/// out[r, c] = Σ over k of a[r, k] · panel[k, c] for `rows` rows, on the calling thread. Each element is summed in the
/// order of k, so the bits do not depend on the number of rows.
/// @param a row-major with row stride lda
/// @param columns a multiple of kPanelTile / 2
/// @param out row-major with row stride ldo
void multiply_panel(const float* a, std::int64_t lda, std::int64_t rows, std::int64_t k, const float* panel,
                    std::int64_t columns, float* out, std::int64_t ldo);
/// The same for bf16 bits: half of the bytes, converted to f32 as they are loaded.
void multiply_panel(const float* a, std::int64_t lda, std::int64_t rows, std::int64_t k, const std::uint16_t* panel,
                    std::int64_t columns, float* out, std::int64_t ldo);
void multiply_panel(const double* a, std::int64_t lda, std::int64_t rows, std::int64_t k, const double* panel,
                    std::int64_t columns, double* out, std::int64_t ldo);

/// Panels of one matrix. @param T type of the factors and sums @param S stored type: T, or the bits of bf16
template <typename T, typename S = T>
class WeightPanels {
 public:
  /// @param columns of each panel, a multiple of kPanelTile / 2
  WeightPanels(std::int64_t panels, std::int64_t k, std::int64_t columns)
      : panels_(panels), k_(k), columns_(columns), packed_(static_cast<std::size_t>(panels * k * columns)) {}

  std::int64_t count() const { return panels_; }
  std::int64_t depth() const { return k_; }
  std::int64_t columns() const { return columns_; }

  /// The address of element (0, c); the elements below it follow with stride `step`. Columns are adjacent up to the
  /// next multiple of kPanelTile / 2.
  struct Column {
    S* first;
    std::int64_t step;
  };
  Column column(std::int64_t i, std::int64_t c) {
    const std::int64_t tile = c / kPanelTile, width = std::min(kPanelTile, columns_ - tile * kPanelTile);
    return {packed_.data() + i * k_ * columns_ + tile * kPanelTile * k_ + c % kPanelTile, width};
  }
  /// Rows to multiply by all panels. If the processor multiplies bf16, rows for bf16 panels are rounded to bf16.
  struct Rows {
    const T* a;
    std::int64_t lda, rows;
    Scratch<std::uint32_t> pairs;
  };
  Rows rows(const T* a, std::int64_t lda, std::int64_t rows) const {
    Rows all{a, lda, rows, {}};
    if constexpr (sizeof(S) == 2) {
      if (multiplies_bf16_pairs()) {
        all.pairs.resize(static_cast<std::size_t>(rows * ((k_ + 1) / 2)));
        round_to_pairs(a, lda, rows, k_, all.pairs.data());
      }
    }
    return all;
  }
  void multiply(std::int64_t i, const Rows& r, T* out, std::int64_t ldo) const {
    const S* panel = packed_.data() + i * k_ * columns_;
    if constexpr (sizeof(S) == 2) {
      if (!r.pairs.empty()) return multiply_bf16_pairs(r.pairs.data(), r.rows, k_, panel, columns_, out, ldo);
    }
    multiply_panel(r.a, r.lda, r.rows, k_, panel, columns_, out, ldo);
  }

 private:
  std::int64_t panels_, k_, columns_;
  Scratch<S> packed_;
};

}  // namespace etna::cpu
