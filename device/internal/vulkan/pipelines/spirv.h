#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace etna::vulkan {

/// What a compute shader requires of its device, under given specialization constants.
struct ShaderNeeds {
  bool float16 = false, float64 = false, int64 = false, int16 = false, int8 = false, packed_dot = false,
       cooperative_matrix = false, subgroups = false;
  std::uint64_t shared_bytes = 0;
  std::array<std::uint32_t, 3> local_size = {1, 1, 1};
};

/// Reads the requirements from the SPIR-V. Drivers do not check them: on some, too much shared memory loses the device.
ShaderNeeds shader_needs(std::span<const std::uint32_t> words, std::span<const std::uint32_t> spec);

/// What a module declares that it uses, by the numbers and names of the SPIR-V specification.
struct ShaderDeclarations {
  std::vector<std::uint32_t> capabilities;
  std::vector<std::string> extensions;
};
ShaderDeclarations shader_declarations(std::span<const std::uint32_t> words);

/// The module with every loop that contains at least `inner` others marked DontUnroll, whatever the shader asked for.
std::vector<std::uint32_t> rolled_loops(std::span<const std::uint32_t> words, int inner);

}  // namespace etna::vulkan
