#pragma once

#include <string>
#include <string_view>

namespace etna::vulkan::fusion {

/// The text with every `#include "name"` replaced by that file of shaders/, once each, and `#include "prologue.glsl"`
/// by `prologue`, if not empty. A text that is the name of an embedded file ("reduce.comp") stands for that file.
/// @throws DeviceError for a file that is not embedded
std::string with_includes(std::string_view text, std::string_view prologue = {});

}  // namespace etna::vulkan::fusion
