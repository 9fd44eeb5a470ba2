#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <etna/device/internal/webgpu/javascript.h>

namespace etna::webgpu {

/// Where kernels report indices outside the dimension that they select from (shaders/lib/index.glsl): 16 bytes an op at
/// the start of the heap. Each read of the heap brings them along. Several wrong indices of an op overwrite each other;
/// one of them is reported.
class IndexErrors {
 public:
  /// The address for kernels of this op.
  std::uint64_t address(std::string_view op);
  /// What a read must bring along: empty while no op has asked for an address.
  javascript::HeapRange range() const;
  /// Throws if a kernel has reported a wrong index, and forgets all reports. @param bytes those of range()
  /// @throws IndexError naming the first of the faulty ops, in the order in which they first ran
  void check(const std::vector<std::byte>& bytes);

 private:
  std::vector<std::string> ops_;
};

}  // namespace etna::webgpu
