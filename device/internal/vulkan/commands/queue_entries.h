#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include <etna/device/internal/graph/hazards.h>
#include <etna/device/internal/vulkan/memory/memory.h>
#include <etna/device/internal/vulkan/pipelines/cubin.h>
#include <etna/device/internal/vulkan/pipelines/pipelines.h>
#include <etna/device/profile/profiler.h>

namespace etna::vulkan {

/// What is encoded into a command buffer as one command, with the objects of its device. Its push constants (a cubin's
/// parameters) are stored elsewhere, with those of others.
struct QueueEntry {
  enum class Kind : std::uint8_t { dispatch, cubin, copy, fill, update, make_host_visible, mark };
  Kind kind = Kind::dispatch;
  std::array<char, 32> op{};
  Pipeline* pipeline = nullptr;
  std::array<std::uint32_t, 3> groups{};
  CubinLaunch cubin;
  std::uint32_t push_begin = 0, push_bytes = 0;
  std::uint32_t word = 0;     ///< of a fill
  BufferSpan source, target;  ///< of a transfer

  Stage stage() const { return kind == Kind::dispatch || kind == Kind::cubin ? kCompute : kTransfer; }
};

/// Those of a batch, with their push constants.
struct QueueEntries {
  std::vector<QueueEntry> entries;
  std::vector<std::byte> pushes;

  void push(QueueEntry& c, std::span<const std::byte> bytes) {
    c.push_begin = static_cast<std::uint32_t>(pushes.size());
    c.push_bytes = static_cast<std::uint32_t>(bytes.size());
    pushes.insert(pushes.end(), bytes.begin(), bytes.end());
  }
  void clear() {
    entries.clear();
    pushes.clear();
  }
};

/// Encodes one into a command buffer. @param pushes where its push constants are
/// @param bound the pipeline that is bound there, kept up to date
/// @throws DeviceError where its pipeline cannot be built
void encode(const VolkDeviceTable& vk, VkCommandBuffer commands, VkPipelineLayout layout,
            std::span<const std::byte> pushes, const QueueEntry& entry, VkPipeline& bound);

}  // namespace etna::vulkan
