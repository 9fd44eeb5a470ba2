#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <etna/dist/dist.h>
#include <etna/tensor/tensor.h>

/// What carries collectives out.
namespace etna::distributed {

class PeerExchange;

enum class Kind : std::uint8_t {
  all_reduce,
  reduce_scatter,
  all_gather,
  broadcast,
  all_to_all,
  send,
  receive,
  barrier
};

struct Collective {
  Kind kind = Kind::barrier;
  Reduce reduce = Reduce::sum;
  int peer = 0;              ///< root, destination or source
  std::uint64_t number = 0;  ///< how many this rank called before
  int group = 0;             ///< ProcessGroup::number()
};
/// "all_reduce(sum)", "broadcast from rank 1"
std::string str(const Collective& collective);

/// An engine has a group and a kind of memory that it works on. Group hands it contiguous tensors whose shapes and
/// dtypes were checked on this rank; ranks may still differ from each other.
///
/// The engine on the host (host_engine.h) returns when the result is there. An engine of a GPU queues its work on the
/// device: behind what was queued before, and before what is queued later. While a step is captured, it records: a
/// collective is then a command of the graph, on a queue of its own, between semaphores.
class Engine {
 public:
  virtual ~Engine() = default;
  virtual std::string name() const = 0;
  /// Whether run() takes tensors of this device. Group copies others through host memory.
  virtual bool takes(Device device) const = 0;
  /// Whether run() works on a thread of its own, so that Group may call it from there and wait later.
  virtual bool runs_anywhere() const = 0;
  /// @param in undefined for receive and barrier @param out undefined for send and barrier. May share `in`'s storage,
  /// then wholly. @throws RankLost, RanksDiffer
  virtual void run(const Collective& collective, const Tensor& in, const Tensor& out) = 0;
  /// For gradients (peer_exchange.h). All ranks call it. Null where there is none, or no need.
  virtual std::shared_ptr<PeerExchange> make_exchange(std::size_t, std::size_t) { return nullptr; }
  /// An engine of some ranks, for their collectives alone; null where this kind has none. All ranks call it, equally
  /// often, those of different parts at once. It is used and destroyed before this. @param members in the order of
  /// their numbers in the part, this rank among them
  virtual std::unique_ptr<Engine> part(const std::vector<int>& members) {
    (void)members;
    return nullptr;
  }
  /// Leaves in order: all ranks do.
  virtual void finish() = 0;
};

}  // namespace etna::distributed
