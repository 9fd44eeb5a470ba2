#pragma once

#include <etna/tensor/ops/matmul/gemm/internal/gemm_params.h>

/// Gemms of rows that lie together by expert (quantized/internal/sorted_rows.h), for all experts at once.
namespace etna::gemm {

/// Rows of a tile, which have one expert.
std::int64_t expert_tile(Device device, DType dtype, std::int64_t rows, std::int64_t experts);
/// y = a · b of each tile's expert. Tiles without one leave y as it is.
/// @param params a [m, k] by tiles of `tile` rows; b.strides[0]: elements from one expert's matrix to the next
/// @param tiles i32 [m / tile], the expert, or -1
void launch_expert_tiles(const OpCall& call, const GemmParams& params, std::int64_t tile, Pointer tiles);
/// y[e] = a · b over the steps of k of expert e, 0 where it has none. Every run adds in the same order.
/// @param params outer: the experts; k: the most steps that an expert may have; a and b are those of all steps
/// @param bounds i32 [experts, 2]: the first step, and the one after the last
void launch_expert_sums(const OpCall& call, const GemmParams& params, std::int64_t tile, Pointer bounds);

}  // namespace etna::gemm
