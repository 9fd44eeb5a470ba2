#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <etna/device/vulkan/api/types.h>

/// A GLSL compiler in the process. Free of glslang's own headers.
namespace etna::vulkan::fusion {

/// Empty where this build has no glslang.
std::string glsl_compiler();

/// False under ETNA_FUSE=0, and where the build has no glslang.
bool enabled();

struct GlslFigures {
  std::uint32_t compiled = 0;  ///< by glslang; others were there from before, or on disk
  double compile_ms = 0;
};

/// From the cache folder or, where it is not there whole, from glslang.
/// @throws DeviceError with glslang's words where the text is wrong
std::vector<std::uint32_t> spirv_of(const std::string& text, GlslFigures& figures);

/// The SPIR-V of a compute shader, includes expanded. Each text is taken from spirv_of() once in a process; what this
/// returns lives as long as the process.
/// @throws what that throws
const Shader& compile_glsl(const std::string& text, GlslFigures& figures);

}  // namespace etna::vulkan::fusion
