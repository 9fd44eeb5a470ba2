#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include <etna/device/profile/profiler.h>
#include <etna/device/vulkan/commands/hazards.h>
#include <etna/device/vulkan/pipelines/cubin.h>

namespace etna::vulkan {

/// One command of a program. Its push constants (a cubin's parameters) and ranges are stored in the program's pools.
struct Command {
  enum class Kind : std::uint8_t { dispatch, cubin, copy, fill };
  Kind kind = Kind::dispatch;
  std::array<char, 32> op{};
  VkPipeline pipeline = VK_NULL_HANDLE;
  std::array<std::uint32_t, 3> groups{};
  CubinLaunch cubin;
  std::uint32_t push_begin = 0, push_bytes = 0;
  std::uint32_t addresses_begin = 0, addresses = 0;       ///< offsets of addresses in its push constants
  std::uint32_t ranges_begin = 0, reads = 0, writes = 0;  ///< reads come first
  std::uint32_t word = 0;                                 ///< the fill's value
  std::uint32_t group = 0;
  profile::Labels labels;

  Stage stage() const { return kind == Kind::dispatch || kind == Kind::cubin ? kCompute : kTransfer; }
};

/// Commands in the order of their groups, with their operands.
struct CommandList {
  std::vector<Command> commands;
  std::vector<std::byte> pushes;
  std::vector<std::uint32_t> addresses;
  std::vector<Range> ranges;

  std::span<const Range> reads(const Command& c) const { return {ranges.data() + c.ranges_begin, c.reads}; }
  std::span<const Range> writes(const Command& c) const { return {ranges.data() + c.ranges_begin + c.reads, c.writes}; }
};

}  // namespace etna::vulkan
