#pragma once

#include <functional>
#include <memory>
#include <vector>

#include <etna/dist/internal/engine.h>
#include <etna/dist/internal/meeting.h>
#include <etna/dist/internal/transport.h>

namespace etna::distributed {

/// Collectives in host memory, over messages. Every rank talks to every other one; a rank reduces its part of the
/// elements in the order of ranks and sends it to all, which moves no more bytes than a ring and gives all ranks the
/// same bits.
class HostEngine final : public Engine {
 public:
  /// @param meeting knows who is gone; outlives this. @param late seconds to wait for a rank that lives
  HostEngine(std::unique_ptr<Transport> transport, Meeting& meeting, double late);
  /// Of some of the ranks of another, whose progress it shares. @param number of the part, the same on all its ranks
  HostEngine(const HostEngine& all, const std::vector<int>& members, std::uint32_t number);

  ~HostEngine() override;

  std::string name() const override { return transport_->name(); }
  bool takes(Device device) const override { return device.is_cpu(); }
  bool runs_anywhere() const override { return true; }
  void run(const Collective& collective, const Tensor& in, const Tensor& out) override;
  std::unique_ptr<Engine> part(const std::vector<int>& members) override;
  void finish() override { transport_->finish(); }

 private:
  struct Header;
  void exchange_headers(const Header& mine, const std::vector<int>& peers);
  void wait(const std::vector<int>& messages, const std::vector<int>& peers, const std::string& what);
  void check_headers(const std::vector<int>& peers) const;
  void all_reduce(const Collective& c, const Tensor& in, const Tensor& out, bool scatter);
  void to_all(const std::byte* in, std::byte* out, std::size_t bytes);
  void message(int number, int peer);
  int world_rank(int peer) const { return members_.empty() ? peer : members_[static_cast<std::size_t>(peer)]; }

  std::unique_ptr<Transport> transport_;
  Meeting& meeting_;
  double late_;
  std::vector<int> members_;  ///< empty: all ranks
  std::uint32_t number_ = 0, parts_ = 0;
  std::shared_ptr<Progress> progress_;
  std::shared_ptr<std::vector<std::uint64_t>>
      met_;  ///< of each rank of the world: how many it had called when last met
  std::vector<Header> headers_;
  std::vector<int> header_messages_, header_peers_;
  std::vector<int> messages_, peers_;  ///< of data, begun and not waited for
  std::vector<std::byte> scratch_;
  std::string what_;
};

}  // namespace etna::distributed
