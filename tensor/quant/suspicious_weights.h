#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <etna/tensor/quant/block_format.h>

/// Finds signs of a damaged or wrongly converted tensor without knowing the model.
namespace etna::quant {

struct Finding {
  enum class Kind {
    not_finite,  ///< a value is NaN or infinite
    scale,       ///< the scale or minimum of a block is NaN or infinite, so all of its values are lost
    large,       ///< finite values larger than those of any weights
    quant,       ///< a quant that the format does not use, such as a fourth ternary value
    zeros        ///< all values of a tensor are 0
  };
  Kind kind;
  std::int64_t count = 0;  ///< affected elements
  std::int64_t first = 0;  ///< index of the first one
  std::string text;        ///< the message: "3 values are NaN or infinite, the first at element 17"
};

struct SuspicionLimits {
  float largest = 1e4f;  ///< larger magnitudes are reported
};

/// Checks every block of a tensor. Returns at most one finding of each kind, in the order of Kind; none for a sound or
/// empty tensor.
/// @throws ShapeError as dequantize()
std::vector<Finding> find_suspicious(const BlockFormat& format, std::span<const std::byte> bytes, std::int64_t count,
                                     SuspicionLimits limits = {});

}  // namespace etna::quant
