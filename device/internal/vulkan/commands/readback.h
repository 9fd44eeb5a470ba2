#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include <etna/device/internal/backend.h>
#include <etna/device/internal/vulkan/commands/command_queue.h>
#include <etna/device/internal/vulkan/memory/memory.h>

namespace etna::vulkan {

/// Small asynchronous reads: each has a slot in a mapped buffer, which the GPU writes after the work queued so far.
/// Callers hold the device's mutex.
class Readback {
 public:
  static constexpr std::size_t kPlaceBytes = 64;

  Readback(const LogicalDevice& device, CommandQueue& queue) : device_(device), queue_(queue) {}

  struct Place {
    std::size_t index = 0;
    std::uint64_t mark = 0;  ///< when the copy into it is done
  };
  Place start(const BufferSpan& from);
  const std::byte* bytes(const Place& place) const;
  /// Frees the slot for reuse, once its copy is done.
  void give_back(const Place& place) { free_.push_back(place); }

 private:
  Place take();

  const LogicalDevice& device_;
  CommandQueue& queue_;
  std::vector<Buffer> buffers_;
  std::vector<Place> free_;
};

/// Implements Backend::download_later().
std::shared_ptr<PendingBytes> download_later(Device device, std::uint64_t address, std::size_t bytes);

}  // namespace etna::vulkan
