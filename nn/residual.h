#pragma once

#include <etna/tensor/ops.h>

namespace etna::nn {

/// A residual stream x and the result of a part that is still to be added to it: the norm that follows does so in the
/// pass that reads the stream anyway (add_layer_norm, add_rms_norm).
struct Residual {
  Tensor x;
  Tensor delta = {};  ///< of x's shape, or of the shape of its last dimensions; undefined: nothing is pending

  Tensor sum() const { return delta.defined() ? x + delta : x; }
};

}  // namespace etna::nn
