#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>

namespace etna::vulkan {

/// What an address becomes: a stand-in of this recording the real one, an address in memory that the step was given itself, any
/// other number nothing.
using Relocated = std::function<std::optional<std::uint64_t>(std::uint64_t)>;

/// Replaces the stand-in addresses (Recording::is_placeholder()) in a kernel's arguments: words of 4 bytes, of which an address takes
/// two, the lower half first. The lower half of an address may itself look like the upper half of a stand-in; what is an
/// address then is told by `relocated`.
/// @throws CaptureError on a stand-in that is not this recording's, and where words can be read as addresses in two ways
void relocate(std::span<std::byte> arguments, const Relocated& relocated);

}  // namespace etna::vulkan
