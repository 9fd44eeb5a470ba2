#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <etna/device/internal/foreign_work.h>
#include <etna/dist/internal/meeting.h>
#include <etna/dist/internal/place.h>

namespace etna::distributed {

/// Two ranks of one computer that exchange parts of an arena, each on a GPU: a thread starts copy engines, which move
/// the bytes while the device goes on, and ops make the sums. Work on a CUDA stream, NCCL's too, would take the compute
/// units from the device's queue, which costs 0.3 ms a time (decision 031).
class PeerExchange : public std::enable_shared_from_this<PeerExchange> {
 public:
  /// Both ranks call it, with equal sizes. @returns null, and why, where one of them cannot
  static std::shared_ptr<PeerExchange> make(Meeting& meeting, const Place& place, gpu::ForeignStream& stream,
                                            std::size_t bytes, std::size_t parts, double seconds, std::string& why);
  ~PeerExchange();

  const StoragePtr& own() const { return own_.storage; }      ///< what the other rank is sent
  const StoragePtr& inbox() const { return inbox_.storage; }  ///< what it sends
  /// Queues the exchange of a part, as a command between those that write the part of own() and read that of inbox().
  /// @param bytes from `offset` on, the same for a part each time
  void start(Device device, std::size_t part, std::size_t offset, std::size_t bytes);
  /// Throws where the group has ended, so that nobody waits for the other rank. Set once, by who makes it.
  std::function<void()> require_alive;
  /// Gets the seconds in which some part waited for the other rank. Set once, too.
  std::shared_ptr<std::atomic<double>> waits;

 private:
  struct Work;
  /// In pages that both ranks map: how often a rank's place for a part was free, and how often it sent the part.
  struct Words {
    std::uint32_t* here = nullptr;
    std::size_t bytes = 0;
  };
  explicit PeerExchange(gpu::ForeignStream& stream, std::size_t parts) : stream_(stream), times_(parts) {}
  void say(std::size_t word, std::uint32_t time);
  bool said(std::size_t word, std::uint32_t time);
  void count_wait(double began);

  gpu::ForeignStream& stream_;
  gpu::ForeignStream::Shared own_, inbox_;
  std::uint64_t other_inbox_ = 0;     ///< CUDA's address
  Words mine_, others_;               ///< written by this rank, by the other one
  std::vector<std::uint32_t> times_;  ///< that each part was exchanged
  double counted_until_ = 0;          ///< parts that wait at once count once
};

/// Descriptors for those of the other one of two ranks on this computer, as many; empty, and why, where that fails.
std::vector<int> swap_descriptors(Meeting& meeting, int rank, std::span<const int> own, double seconds,
                                  std::string& why);
/// Memory of the host that another process can open; -1, and why.
int make_shared_pages(std::size_t bytes, std::string& why);
/// Null where that fails.
void* map_shared_pages(int descriptor, std::size_t bytes);
void unmap_shared_pages(void* pages, std::size_t bytes);

}  // namespace etna::distributed
