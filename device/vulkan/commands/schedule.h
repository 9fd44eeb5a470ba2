#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <etna/device/vulkan/api/types.h>

/// Which commands of a recorded program may run side by side. Pure bookkeeping: knows nothing of Vulkan.
namespace etna::vulkan {

/// What one command touches.
struct Accesses {
  std::span<const Range> reads, writes;
};

/// For each command the earlier ones it clashes with, but for those that others of the list wait for on its behalf.
std::vector<std::vector<std::uint32_t>> dependencies(std::span<const Accesses> commands);

/// Puts commands into groups 0, 1, 2 ... so that no two of one group clash, and every command stands behind all earlier
/// ones it clashes with; one barrier between groups then is enough. A command goes to the first group it can, but not
/// further than `reach` groups before the last: work that is ready long before it is wanted would only hold memory.
/// @return the group of each command
std::vector<std::uint32_t> group_commands(std::span<const Accesses> commands, std::uint32_t reach = 8);

}  // namespace etna::vulkan
