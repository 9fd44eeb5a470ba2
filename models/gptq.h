#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include <etna/models/decoder.h>

namespace etna::models {

struct GptqOptions {
  const quant::BlockFormat* format = nullptr;  ///< Q4_0 or Q4_1; null: Q4_0
  double damping = 0.01;                       ///< added to the second moments' diagonal, times its mean
  /// Called before each block is rounded; false stops, and leaves the blocks that are not.
  std::function<bool(std::int64_t block)> progress = {};
};

/// Rounds the projections of a decoder's blocks to four bits, block after block, so that what they compute on texts
/// like the given ones changes least (GPTQ, Frantar et al. 2023): the columns behind make up for a column's rounding
/// error. Matrices whose rows are no whole blocks, the embedding and the head stay as they are.
/// @param decoder with dense weights, on the CPU @param texts tokens, of at most the context's length each
/// @throws Error for a frozen decoder, no text, another format; ShapeError for texts that are too long
void quantize_gptq(Decoder& decoder, std::span<const std::vector<std::int32_t>> texts, const GptqOptions& options = {});

/// The same for one matrix. @param weight [N, K] @param moments [K, K]: Σ xᵀx over inputs, f64
QuantizedTensor gptq(const Tensor& weight, const Tensor& moments, const quant::BlockFormat& format,
                     double damping = 0.01);

}  // namespace etna::models
