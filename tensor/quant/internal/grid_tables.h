#pragma once

#include <cstdint>

/// The points of the formats in grid_formats.h, which are facts of these formats. Internal.
namespace etna::quant {

/// A byte for each coordinate, the first one lowest. Kernels of GPUs read these bytes (shaders/lib/quant_blocks.glsl).
struct GridPoints {
  std::uint64_t iq2_xxs[256], iq2_xs[512], iq2_s[1024];  ///< magnitudes
  std::uint64_t iq1[2048];                               ///< of IQ1_S and IQ1_M: 8 · (coordinate + 1)
  std::uint32_t iq3_xxs[256], iq3_s[512];                ///< magnitudes
};
extern const GridPoints kGridPoints;

}  // namespace etna::quant
