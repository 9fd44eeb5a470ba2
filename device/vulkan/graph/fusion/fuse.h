#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <variant>
#include <vector>

#include <etna/device/fusion_info.h>
#include <etna/device/vulkan/commands/command_list.h>
#include <etna/device/vulkan/commands/context.h>

namespace etna::vulkan::fusion {

/// What a recorded command computes, where that is known.
using FusionInfo = std::variant<std::monostate, ElementwiseInfo, PrologueFusion>;

struct Figures {
  std::uint32_t commands = 0;  ///< that were joined
  std::uint32_t kernels = 0;   ///< that they became
  std::uint64_t bytes = 0;     ///< that these do not read and write any more
  std::uint32_t compiled = 0;  ///< shaders, by glslang; the others were known
  double compile_ms = 0;
};

/// Puts generated kernels in the place of elementwise commands and what they feed; the order of commands changes with
/// it.
/// @param infos of each command @param dropped storages that nobody holds any more, in order of address
/// @param constant keeps a table that never changes on the device, and says where
Figures fuse(Context& context, CommandList& list, std::span<const FusionInfo> infos, std::span<const Range> dropped,
             const std::function<Pointer(const Arguments&)>& constant);

}  // namespace etna::vulkan::fusion
