#pragma once

#include <cstdint>
#include <span>

#include <etna/tensor/ops/activations/activations.h>
#include <etna/tensor/ops/quantized/internal/gpu.h>

/// The weights of experts in products, for expert_linear and expert_feed_forward.
namespace etna::quantized {

/// A matrix of each expert, one below the other.
struct ExpertMatrices {
  const quant::BlockFormat* format = nullptr;
  Tensor blocks;
  std::int64_t experts = 0, rows = 0, columns = 0;  ///< rows, columns: of each matrix

  QuantizedTensor of(std::int64_t expert) const;
  QuantizedTensor all() const { return {*format, {experts * rows, columns}, blocks}; }
};

/// A row of x for each choice, [R · C, K]. @param x [R, K] or [R, C, K] @param expert [R, C]
Tensor rows_by_choice(const Tensor& x, const Tensor& expert);
/// y[r, c] = W[expert[r, c]] · x[r], or Wᵀ, of weights in f32, or in f64 if x is. @return [R, C, M]
Tensor products_by_choice(const Tensor& x, const ExpertMatrices& weights, const Tensor& expert,
                          bool transposed = false);
/// @param what "the weights" @throws ShapeError, FormatError
void require_expert_matrices(const char* op, const char* what, const QuantizedTensor& weights, std::int64_t experts);

/// Whether GPU kernels support the weights.
bool has_expert_kernel(const ExpertMatrices& weights);
/// The products of expert_linear. @param x [R, K] or [R, C, K], contiguous @param y [R, C, M]
void multiply_by_choice(const OpCall& call, const Tensor& x, const ExpertMatrices& weights, const Tensor& expert,
                        const Tensor& y);
/// The same with transposed weights. @param x [R, M] or [R, C, M], contiguous, of some choices
/// @param y [R, C, K], or [R, K] if summed
void multiply_transposed_by_choice(const OpCall& call, const Tensor& x, const ExpertMatrices& weights,
                                   const Tensor& expert, bool summed, const Tensor& y);

/// The tensors of expert_feed_forward; all are contiguous.
struct ExpertFeedForward {
  Tensor x;  ///< [R, K]
  ExpertMatrices gate, up, down;
  Tensor expert, factor;  ///< [R, C]
  Activation activation = Activation::silu;
  Tensor residual = {};  ///< [R, K], added; or undefined
  Tensor y = {};         ///< [R, K]
};
void feed_forward_gpu(const OpCall& call, const ExpertFeedForward& f);

/// Rows of x, sorted by expert, that have one expert.
struct RowsOfExpert {
  std::int64_t expert = 0, begin = 0, count = 0;
};
/// The layers of experts with few rows each, all at once: each thread reads its share of their weights.
/// @param x [S, K] f32, sorted @param y [S, K] f32; factors are not in it
/// @return false where a format has no kernel for few rows
bool feed_forward_cpu(const ExpertFeedForward& f, std::span<const RowsOfExpert> experts, const Tensor& x, Tensor& y);
/// Of so many rows each expert is multiplied by itself.
inline constexpr std::int64_t kManyRowsOfExpert = 12;

/// Whether the kernel of shaders/sm90/expert_gemm.cuh supports all of them, perhaps decoded to bf16 before.
bool has_expert_gemm(const ExpertFeedForward& f);
/// The order in which that kernel reads k (shaders/quantized/expert_rows.comp: ORDER).
std::uint32_t expert_order(const ExpertMatrices& weights);
/// Rows of x by expert: tiles of kExpertTile rows.
inline constexpr std::int64_t kExpertTile = 96;
/// y = W[tiles[i]] · x of tile i, or act(W x) ⊙ (second x), for sorted rows.
/// @param x [S, K] bf16 in the order of the weights @param second null: there is none
/// @param y [S, M]: f32, or bf16 in the order of the next weights @param y_order of y
void expert_gemm(const OpCall& call, const Tensor& x, const Tensor& tiles, const ExpertMatrices& weights,
                 const ExpertMatrices* second, Activation activation, const Tensor& y, std::uint32_t y_order);

}  // namespace etna::quantized
