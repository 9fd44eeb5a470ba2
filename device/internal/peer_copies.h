#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <string>

#include <etna/device/device.h>
#include <etna/device/internal/foreign_work.h>
#include <etna/device/memory.h>

namespace etna {

/// Copies from one GPU of this computer to another, by copy engines through memory that both map: parts go into slots
/// here, over the link into slots there, and on. Both devices' queues go on with what does not touch the slots.
class PeerPath : public std::enable_shared_from_this<PeerPath> {
 public:
  static constexpr std::size_t kSlot = std::size_t{16} << 20, kSlots = 4;

  /// @param streams of the devices @throws DeviceError where the one cannot reach the other's memory
  static std::shared_ptr<PeerPath> make(Device from, gpu::ForeignStream& sends, Device to, gpu::ForeignStream& receives,
                                        std::size_t slot = kSlot);
  ~PeerPath();

  /// Queues the copy on both devices. One thread after another calls it, for all paths together.
  /// @throws DeviceError where an earlier one has failed
  void copy(const Storage& from, std::size_t from_offset, Storage& to, std::size_t to_offset, std::size_t bytes);
  bool failed() const;

 private:
  struct Passage;
  class Send;
  class Receive;
  PeerPath(Device from, gpu::ForeignStream& sends, Device to, std::size_t slot)
      : from_(from), to_(to), sends_(sends), slot_(slot) {}
  void pass(const Storage& from, std::size_t from_offset, std::size_t place, std::size_t bytes);
  void fail(const std::string& why);
  /// @throws DeviceError once, where a copy has failed
  void tell();

  const Device from_, to_;
  gpu::ForeignStream& sends_;
  const std::size_t slot_;
  gpu::ForeignStream::Shared own_, inbox_;  ///< on the sending device, on the receiving one
  std::uint64_t inbox_here_ = 0;            ///< as the sending device maps it
  std::uint64_t parts_ = 0;                 ///< that were copied
  mutable std::mutex mutex_;
  std::string failure_;  ///< of the first that failed
  bool told_ = false;
};

/// Queues a copy between two GPUs that does not pass through the host. Its first large copy between two devices makes
/// their path, which takes 64 MiB on each, and what the other API takes there.
/// @return false, and nothing is queued, where there is no such path, or a copy there has failed, of which who waits
/// for one of the devices is told
bool copy_to_peer(const Storage& from, std::size_t from_offset, Storage& to, std::size_t to_offset, std::size_t bytes);

}  // namespace etna
