#pragma once

#include <cstdint>

/// The points of the formats in grid_formats.h, which are facts of these formats. Internal.
namespace etna::quant {

extern const std::uint16_t kGrid256[256];    ///< of IQ2_XXS: eight coordinates
extern const std::uint16_t kGrid512[512];    ///< of IQ2_XS
extern const std::uint16_t kGrid1024[1024];  ///< of IQ2_S
extern const std::uint16_t kGrid2048[2048];  ///< of IQ1_S and IQ1_M
extern const std::uint16_t kQuads256[256];   ///< of IQ3_XXS: four coordinates
extern const std::uint16_t kQuads512[512];   ///< of IQ3_S

}  // namespace etna::quant
