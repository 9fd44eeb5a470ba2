#pragma once

#include <cstdint>

#include <etna/tensor/ops/kernel.h>

/// Rows on a GPU in the order of the experts that they chose (shaders/quantized/expert_rows.comp).
namespace etna::quantized::experts {

/// Where the choices of each expert lie: tiles of rows, those of one expert after those of another.
struct ChoiceRanks {
  Tensor expert;         ///< [R, C]
  Tensor counts, ranks;  ///< i32: the choices of each expert; the place of each among its expert's
  Tensor slots;          ///< [R, C] i32: the row of each choice; written with the first rows
  Tensor tiles;          ///< i32: the expert of each tile, -1 behind the last; likewise
  std::int64_t experts = 0, tile = 0;

  std::int64_t rows() const { return tiles.numel() * tile; }
};

/// Rows of x by expert.
struct SortedRows {
  Tensor x;             ///< [tiles · tile, K]; those of no choice hold anything
  Tensor slots, tiles;  ///< of ChoiceRanks
};

/// @param expert [R, C], contiguous, of some choices
ChoiceRanks ranks_by_expert(const OpCall& call, const Tensor& expert, std::int64_t experts, std::int64_t tile);
/// @param x [R, K] or [R, C, K], contiguous @param order of k (ORDER in the shader) @return [ranks.rows(), K]
Tensor sorted_rows(const OpCall& call, const ChoiceRanks& ranks, const Tensor& x, DType dtype, std::uint32_t order = 0);
/// Both at once.
SortedRows sorted(const OpCall& call, const Tensor& x, const Tensor& expert, std::int64_t experts, std::int64_t tile,
                  DType dtype, std::uint32_t order);
/// The first row of each expert, and the one after its last. @return i32 [experts, 2]
Tensor row_bounds(const OpCall& call, const ChoiceRanks& ranks);
/// y[r] = Σ_c factor[r, c] · x[slots[r, c]]
void merge(const OpCall& call, const Tensor& x, const Tensor& slots, const Tensor& factor, const Tensor& y);

/// Elements of x that a load of a row takes: 4 or 1.
std::uint32_t load_width(const Tensor& x, std::int64_t columns);

}  // namespace etna::quantized::experts
