#pragma once

#include <cstdint>

#include <etna/tensor/tensor.h>

/// Drawing tokens from logits, on the device that has them.
namespace etna {

/// Places of the numbers that a row of sample_tokens() has; all f32.
enum SamplingNumber {
  kTemperature,  ///< logits are divided by it; 0: the largest logit wins, and those below up to typical_p do not count
  kTopK,         ///< only tokens with a logit as large as the k-th largest; 0: all
  kTopP,         ///< only the most probable tokens that together have this probability; 1: all
  kMinP,         ///< only tokens with this part of the largest probability; 0: all
  kTypicalP,     ///< as top_p, in order of how near -ln(p) is to the entropy; 1: all
  kRepetitionPenalty,  ///< positive logits of tokens in `counts` are divided by it, negative ones multiplied; 1: none
  kPresencePenalty,    ///< subtracted from the logit of a token that was drawn before
  kFrequencyPenalty,   ///< subtracted as often as it was drawn
  kSamplingNumbers
};

/// Added to the count of a token that is in the prompt: it is penalized as repeated, not as drawn.
inline constexpr std::int32_t kInPrompt = 1 << 30;

struct SamplingInputs {
  Tensor numbers;      ///< [B, kSamplingNumbers] f32
  Tensor seeds;        ///< [B, 2] i32: the bits of a u64, the lower ones first
  Tensor draws;        ///< [B] i32: how many were drawn before; another one gives other random numbers
  Tensor counts = {};  ///< [B, V] i32 or undefined: how often a token was drawn; the drawn one's is raised in place
  Tensor bias = {};    ///< [B, V] f32 or undefined: added to logits first
};

/// Draws one token a row. Filters apply one after the other, each to what the one before has left; tokens that are
/// equal at a limit all stay. The same inputs give the same tokens in every run; other devices may round probabilities
/// otherwise. Rows without a number (NaN, or all -inf) give token 0. Not differentiable.
/// @param logits [B, V] floating @return [B] i32 @throws ShapeError, DtypeError
Tensor sample_tokens(const Tensor& logits, const SamplingInputs& inputs);

}  // namespace etna
