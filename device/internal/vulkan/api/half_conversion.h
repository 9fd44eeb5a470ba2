#pragma once

#include <cstdint>
#include <span>
#include <vector>

/// Converts f32 to f16 by the device's own instruction where its rounding is known. SPIR-V leaves the rounding to the
/// device unless a shader requests a mode, and a device reports which modes it supports.
namespace etna::vulkan {

/// What a device guarantees. shaders/lib/dtype.glsl takes it as specialization constant kHalfConversionId and handles
/// the remaining cases in integers.
enum class HalfConversion : std::uint32_t {
  any,      ///< nothing
  normal,   ///< normal results are rounded to nearest even
  rounded,  ///< all results are, and subnormals are kept
};
inline constexpr std::uint32_t kHalfConversionId = 1000;

/// The shader with the guaranteed modes requested. Empty where there is nothing to request: the shader makes no f16, or
/// the device guarantees nothing.
std::vector<std::uint32_t> demanding(HalfConversion promised, std::span<const std::uint32_t> words);

}  // namespace etna::vulkan
