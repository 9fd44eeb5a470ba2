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

/// Small asynchronous reads: each has a place in a mapped buffer, which the GPU writes after the work queued so far. A
/// place has 64 bytes, for one number, or kMostBytesLater.
/// Callers hold the device's mutex.
class Readback {
 public:
  Readback(const LogicalDevice& device, CommandQueue& queue) : device_(device), queue_(queue) {}

  struct Place {
    bool large = false;
    std::size_t index = 0;   ///< among those of its size
    std::uint64_t mark = 0;  ///< when the copy into it is done
  };
  Place start(const BufferSpan& from);
  const std::byte* bytes(const Place& place);
  /// Frees the slot for reuse, once its copy is done.
  void give_back(const Place& place) { of(place).free.push_back(place); }

 private:
  struct Places {
    std::size_t bytes;  ///< of a place
    std::vector<Buffer> buffers = {};
    std::vector<Place> free = {};
  };
  Places& of(const Place& place) { return place.large ? large_ : small_; }
  Place take(bool large);

  const LogicalDevice& device_;
  CommandQueue& queue_;
  Places small_{64}, large_{kMostBytesLater};
};

/// Implements Backend::download_later().
std::shared_ptr<PendingBytes> download_later(Device device, std::uint64_t address, std::size_t bytes);

}  // namespace etna::vulkan
