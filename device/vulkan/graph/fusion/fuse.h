#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <variant>
#include <vector>

#include <etna/device/graph/fusion_info.h>
#include <etna/device/vulkan/commands/command_list.h>
#include <etna/device/vulkan/commands/context.h>

namespace etna::vulkan::fusion {

/// What a recorded command computes, where known.
using FusionInfo = std::variant<std::monostate, ElementwiseInfo, PrologueFusion>;

struct Figures {
  std::uint32_t commands = 0;  ///< fused
  std::uint32_t kernels = 0;   ///< they became
  std::uint64_t bytes = 0;     ///< reads and writes saved
  std::uint32_t compiled = 0;  ///< shaders compiled by glslang; the others were cached
  double compile_ms = 0;
};

/// Replaces elementwise commands and their consumers by generated kernels, and reorders commands accordingly.
/// @param infos one per command @param dropped storages that nobody refers to any more, in order of address
/// @param constant stores a constant table on the device and returns its address
Figures fuse(Context& context, CommandList& list, std::span<const FusionInfo> infos, std::span<const Range> dropped,
             const std::function<Pointer(const Arguments&)>& constant);

}  // namespace etna::vulkan::fusion
