#pragma once

#include <cstdint>
#include <span>
#include <string>

#include <etna/device/arguments.h>

namespace etna::vulkan {

/// How arguments differ from a shader's push constants, which state them a second time, in GLSL: their size, or an
/// address where the shader has a number. Empty where they agree.
/// @param words SPIR-V
std::string wrong_arguments(std::span<const std::uint32_t> words, const Arguments& arguments);

}  // namespace etna::vulkan
