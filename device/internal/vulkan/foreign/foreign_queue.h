#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include <etna/device/internal/foreign_work.h>
#include <etna/device/internal/vulkan/memory/memory.h>

namespace etna::vulkan {

using gpu::ForeignPlace;
using gpu::ForeignWork;

/// Does foreign work in order, between two timeline semaphores. Callers hold the device's mutex.
class ForeignQueue {
 public:
  virtual ~ForeignQueue() = default;
  ForeignQueue(const ForeignQueue&) = delete;
  ForeignQueue& operator=(const ForeignQueue&) = delete;

  /// Begins the call once `to` has reached `after`. It then raises `from` to the number of the call, the first is 1, or
  /// a later one does, or raise() does, whatever happens. @throws what ForeignWork::queue() throws, once that is queued
  void run(std::uint64_t after, const gpu::ForeignCall& call) { begin(after, call, ++queued_); }
  /// `from` comes to queued(), if nothing fails.
  virtual void raise() {}
  VkSemaphore to() const { return to_; }
  VkSemaphore from() const { return from_; }
  std::uint64_t queued() const { return queued_; }
  virtual gpu::ForeignStream* stream() { return nullptr; }

 protected:
  /// @param exported semaphores can be shared as file descriptors
  ForeignQueue(const LogicalDevice& device, bool exported);
  virtual void begin(std::uint64_t after, const gpu::ForeignCall& call, std::uint64_t number) = 0;

  const LogicalDevice& device_;

 private:
  VkSemaphore to_ = VK_NULL_HANDLE, from_ = VK_NULL_HANDLE;
  std::atomic<std::uint64_t> queued_ = 0;
};

/// Makes an imported buffer a storage of the device, which counts as its memory; or destroys it. @throws OutOfMemory
using AdoptBuffer = std::function<StoragePtr(const Buffer&)>;
/// A CUDA stream of the same GPU. Null, and `why`, where it cannot be.
std::unique_ptr<ForeignQueue> make_cuda_queue(const LogicalDevice& device, BufferSegments& segments, AdoptBuffer adopt,
                                              std::string& why);
/// A thread.
std::unique_ptr<ForeignQueue> make_host_queue(const LogicalDevice& device);

}  // namespace etna::vulkan
