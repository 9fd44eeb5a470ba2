#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include <etna/device/graph/hazards.h>
#include <etna/device/profile/profiler.h>
#include <etna/device/vulkan/memory/memory.h>
#include <etna/device/vulkan/pipelines/cubin.h>
#include <etna/device/vulkan/pipelines/pipelines.h>

namespace etna::vulkan {

/// One command of a program. Its push constants (a cubin's parameters) and ranges are stored in the program's pools.
struct Command {
  enum class Kind : std::uint8_t { dispatch, cubin, copy, fill, update, make_host_visible, mark };
  Kind kind = Kind::dispatch;
  std::array<char, 32> op{};
  Pipeline* pipeline = nullptr;
  std::array<std::uint32_t, 3> groups{};
  CubinLaunch cubin;
  std::uint32_t push_begin = 0, push_bytes = 0;
  std::uint32_t addresses_begin = 0, addresses = 0;       ///< offsets of addresses in its push
  std::uint32_t ranges_begin = 0, reads = 0, writes = 0;  ///< reads first
  std::uint32_t word = 0;                                 ///< of a fill
  BufferSpan source, target;                              ///< of a transfer
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

  void push(Command& c, std::span<const std::byte> bytes) {
    c.push_begin = static_cast<std::uint32_t>(pushes.size());
    c.push_bytes = static_cast<std::uint32_t>(bytes.size());
    pushes.insert(pushes.end(), bytes.begin(), bytes.end());
  }
  void clear() {
    commands.clear();
    pushes.clear();
    addresses.clear();
    ranges.clear();
  }

  std::span<const Range> reads(const Command& c) const { return {ranges.data() + c.ranges_begin, c.reads}; }
  std::span<const Range> writes(const Command& c) const { return {ranges.data() + c.ranges_begin + c.reads, c.writes}; }
};

/// Records one command into a buffer. @param bound the pipeline that is bound there, kept up to date
/// @throws DeviceError where its pipeline cannot be built
void encode(const VolkDeviceTable& vk, VkCommandBuffer commands, VkPipelineLayout layout, const CommandList& list,
            const Command& command, VkPipeline& bound);

}  // namespace etna::vulkan
