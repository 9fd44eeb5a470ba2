#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <etna/device/internal/vulkan/api/types.h>

/// An in-process GLSL compiler. Does not include glslang's headers.
namespace etna::vulkan::fusion {

/// The compiler's name; empty where this build has no glslang.
std::string glsl_compiler();

/// False under ETNA_FUSE=0, and where the build has no glslang.
bool enabled();

struct GlslFigures {
  std::uint32_t compiled = 0;  ///< by glslang; others were cached in memory or on disk
  double compile_ms = 0;
};

/// Reads the SPIR-V from the cache folder; compiles by glslang where it is missing or damaged.
/// @throws DeviceError with glslang's message where the text is wrong
std::vector<std::uint32_t> spirv_of(const std::string& text, GlslFigures& figures);

/// The SPIR-V of a compute shader, includes expanded. Calls spirv_of() once per text and process; the result lives as
/// long as the process.
/// @throws as spirv_of()
const Shader& compile_glsl(const std::string& text, GlslFigures& figures);

}  // namespace etna::vulkan::fusion
