#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <etna/device/internal/caching_allocator.h>
#include <etna/device/internal/vulkan/api/logical_device.h>

namespace etna::vulkan {

/// A buffer with its own memory. The host address is null where the host cannot access it.
struct Buffer {
  VkBuffer handle = VK_NULL_HANDLE;
  VkDeviceMemory memory = VK_NULL_HANDLE;
  std::uint64_t address = 0;
  std::size_t bytes = 0;
  std::byte* host = nullptr;
  bool imported = false;        ///< the memory is the host's
  std::uint64_t shareable = 0;  ///< bytes of the allocation, if it can be exported (gpu::share_memory()); else 0
};

/// Bytes within a buffer, as copy commands name them.
struct BufferSpan {
  VkBuffer buffer = VK_NULL_HANDLE;
  std::uint64_t offset = 0;
  Range range;  ///< the same bytes by device address
};

enum class BufferUse {
  device,    ///< device-local, addressed by kernels
  upload,    ///< mapped; the host writes it sequentially
  download,  ///< mapped and, where available, cached: for the host to read
  report,    ///< the same, addressed by kernels
};

/// @returns VK_SUCCESS, or the first failure with everything cleaned up.
VkResult make_buffer(const LogicalDevice& device, BufferUse use, std::size_t bytes, Buffer& out);
/// A buffer over memory of the host, which kernels read in place. @param pages and bytes: multiples of the adapter's
/// host_import_alignment
VkResult import_buffer(const LogicalDevice& device, void* pages, std::size_t bytes, Buffer& out);
/// A buffer over memory of the same GPU that another API has exported. Takes the descriptor, unless it fails.
VkResult import_buffer(const LogicalDevice& device, int descriptor, std::size_t bytes, Buffer& out);
void destroy_buffer(const LogicalDevice& device, const Buffer& buffer);

/// Device-local memory for the caching allocator: one buffer and one allocation per segment, looked up by address.
class BufferSegments : public SegmentSource {
 public:
  /// @param finish waits until the device has done everything queued
  BufferSegments(const LogicalDevice& device, std::function<void()> finish, std::recursive_mutex& mutex)
      : device_(device), finish_(std::move(finish)), mutex_(mutex) {}

  bool allocate(std::size_t bytes, Segment& out, std::string& why) override;
  void synchronize() override;
  void release(const Segment& segment) override;
  std::uint64_t available() const override;

  /// Adds a buffer that was imported; release() ends it. @returns false where another one begins at its address
  bool adopt(const Buffer& buffer);
  /// The whole buffer that an address is in; null for none.
  const Buffer* buffer_at(std::uint64_t address) const;
  /// @param released is called before a buffer ends
  void watch(std::function<void(const Buffer&)> released) { released_ = std::move(released); }
  /// Whether the address is in such a buffer.
  bool is_imported(std::uint64_t address) const;

  /// @throws DeviceError where the bytes are not in one live segment.
  BufferSpan find(std::uint64_t address, std::size_t bytes) const;

 private:
  struct Heap {
    std::uint32_t index;
    std::uint64_t bytes;
    std::optional<std::uint64_t> free;  ///< where the driver tells
  };
  std::vector<Heap> local_heaps() const;
  std::string limits() const;

  const LogicalDevice& device_;
  std::function<void()> finish_;
  std::function<void(const Buffer&)> released_;
  std::recursive_mutex& mutex_;
  std::map<std::uint64_t, Buffer> by_address_;
};

}  // namespace etna::vulkan
