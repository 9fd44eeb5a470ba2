#pragma once

#include <etna/tensor/ops.h>

namespace etna::nn {

/// A residual stream x and a sublayer's result that is not yet added to it. The norm that follows adds it in the pass
/// that reads the stream anyway (add_layer_norm, add_rms_norm).
struct Residual {
  Tensor x;
  Tensor delta = {};  ///< x's shape, or the shape of its last dimensions; undefined: nothing to add

  Tensor sum() const { return delta.defined() ? x + delta : x; }
};

}  // namespace etna::nn
