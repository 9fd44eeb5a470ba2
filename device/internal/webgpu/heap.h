#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include <etna/device/internal/caching_allocator.h>

namespace etna::webgpu {

/// The one buffer that holds all tensors. It grows by moving into a larger one, so addresses stay: they are offsets.
/// Its first bytes are reserved: nothing lies at address 0, and kernels report wrong indices behind it.
class Heap final : public SegmentSource {
 public:
  static constexpr std::size_t kReserved = 8192;

  /// @param limit bytes that the adapter binds at most
  explicit Heap(std::uint64_t limit) : limit_(limit) {}

  bool allocate(std::size_t bytes, Segment& out, std::string& why) override;
  void synchronize() override {}  // the queue is in order: whoever gets the bytes next writes later
  void release(const Segment& segment) override;
  std::uint64_t available() const override { return limit_ - used_; }

 private:
  bool reserve(std::uint64_t bytes, std::string& why);

  std::uint64_t limit_;
  std::uint64_t size_ = 0;                        ///< of the buffer
  std::uint64_t end_ = kReserved;                 ///< of the last segment
  std::uint64_t used_ = kReserved;                ///< by segments
  std::map<std::uint64_t, std::uint64_t> holes_;  ///< bytes by address, never neighbours of each other or of end_
};

}  // namespace etna::webgpu
