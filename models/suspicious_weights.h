#pragma once

#include <etna/device/error.h>
#include <etna/models/decoder.h>

namespace etna::models {

/// Weights of which some are NaN or infinite, or which make logits so, or all the same: no text of such a model means
/// anything.
struct SuspiciousWeights : Error {
  using Error::Error;
};

/// Reads two numbers from the device. @param logits [..., vocabulary] @param text where they stand, "the prompt"
/// @throws SuspiciousWeights if one is NaN or infinite, or if all of more than one are the same
void check_logits(const Tensor& logits, const char* text);

/// Reads all weights, as quant::find_suspicious(). @throws SuspiciousWeights naming the first tensor with a value or a
/// block's scale that is NaN or infinite
void check_weights(Decoder& decoder);

}  // namespace etna::models
