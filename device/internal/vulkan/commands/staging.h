#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

#include <etna/device/internal/vulkan/commands/command_queue.h>
#include <etna/device/internal/vulkan/memory/memory.h>
#include <etna/device/internal/vulkan/pipelines/pipelines.h>

namespace etna::vulkan {

/// Copies bytes between host and device memory through mapped buffers, created on first use. Uploads use a ring buffer
/// and wait only when it is full of copies that the GPU has not done yet.
class Staging {
 public:
  Staging(const LogicalDevice& device, CommandQueue& queue, Pipelines& pipelines)
      : device_(device), queue_(queue), pipelines_(pipelines) {}

  void upload(const std::byte* source, BufferSpan to);
  void download(BufferSpan from, std::byte* target);

  static constexpr std::size_t kRing = std::size_t{32} << 20;
  /// larger copies are chunked, so that the GPU works while the host fills the next chunk
  static constexpr std::size_t kPiece = kRing / 4;
  static constexpr std::size_t kSmall =
      65536;  ///< up to this size a kernel copies, so that a step waits for compute work only

 private:
  struct InUse {
    std::uint64_t begin, mark;
  };
  std::size_t take(std::size_t bytes);
  void copy(std::size_t offset, BufferSpan to);
  void make(Buffer& buffer, BufferUse use, std::size_t bytes);

  const LogicalDevice& device_;
  CommandQueue& queue_;
  Pipelines& pipelines_;
  Buffer ring_, down_;
  std::uint64_t head_ = 0;    ///< bytes ever allocated; the position in the ring is head_ % kRing
  std::deque<InUse> in_use_;  ///< oldest first
  std::size_t unsubmitted_ = 0;
};

}  // namespace etna::vulkan
