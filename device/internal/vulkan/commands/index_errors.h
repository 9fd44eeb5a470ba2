#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <etna/device/internal/vulkan/memory/memory.h>

namespace etna::vulkan {

/// Where kernels report indices outside the dimension that they select from (shaders/lib/index.glsl): 16 bytes of host
/// memory per op, which kernels write only then. After a wait the host reads its own memory, a few words per op.
///
/// Several wrong indices of an op overwrite each other; one of them is reported. A report written while the host reads
/// an earlier one may be lost. Callers hold the device's mutex.
class IndexErrors {
 public:
  explicit IndexErrors(const LogicalDevice& device) : device_(device) {}

  /// The address for kernels of this op. @throws OutOfMemory
  std::uint64_t address(std::string_view op);
  /// True once an op has asked for an address: from then on, batches make what kernels wrote visible to the host.
  bool in_use() const { return !ops_.empty(); }
  /// Throws if a kernel has reported a wrong index, and forgets all reports. Call after a wait.
  /// @throws IndexError naming the first of the faulty ops, in the order in which they first ran
  void check();

 private:
  const LogicalDevice& device_;
  Buffer buffer_;
  std::vector<std::string> ops_;
};

}  // namespace etna::vulkan
