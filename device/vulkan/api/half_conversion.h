#pragma once

#include <cstdint>
#include <span>
#include <vector>

/// Conversions from f32 to f16 by the device's own instruction, where their rounding is known. SPIR-V leaves it to the
/// device unless a shader demands otherwise, and a device says which demands it can meet.
namespace etna::vulkan {

/// What a device promises. shaders/lib/dtype.glsl takes it as specialization constant kHalfConversionId and does the
/// rest in integers.
enum class HalfConversion : std::uint32_t {
  any,      ///< nothing
  normal,   ///< normal results are rounded to nearest even
  rounded,  ///< all are, and subnormal ones are kept
};
inline constexpr std::uint32_t kHalfConversionId = 1000;

/// A shader that demands what is promised. Empty where there is nothing to demand: the shader makes no f16, or the
/// device promises nothing.
std::vector<std::uint32_t> demanding(HalfConversion promised, std::span<const std::uint32_t> words);

}  // namespace etna::vulkan
