#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <etna/dist/internal/engine.h>
#include <etna/dist/internal/meeting.h>
#include <etna/dist/internal/place.h>

namespace etna::distributed {

/// Collectives of Vulkan tensors by NCCL, on a CUDA stream beside the device's queue: nothing waits for them but what
/// touches their memory. They are commands of captured steps.
class NcclEngine final : public Engine {
 public:
  /// All ranks call it. @returns null, and the first rank's reason in `why`, where one of them cannot
  /// @param late seconds to wait for a rank that lives
  static std::unique_ptr<NcclEngine> join(Meeting& meeting, const Place& place, Device device, double seconds,
                                          double late, std::string& why);
  ~NcclEngine() override;

  std::string name() const override;
  bool takes(Device device) const override { return device == device_; }
  bool runs_anywhere() const override { return false; }
  void run(const Collective& collective, const Tensor& in, const Tensor& out) override;
  std::shared_ptr<PeerExchange> make_exchange(std::size_t bytes, std::size_t parts) override;
  std::unique_ptr<Engine> part(const std::vector<int>& members) override;
  void finish() override;

  struct State;

 private:
  NcclEngine(std::shared_ptr<State> state, Device device);
  void require_equal(const std::string& call);

  std::shared_ptr<State> state_;
  Device device_;
  std::set<std::string> known_;  ///< calls that all ranks are known to make alike
  bool is_part_ = false;
};

}  // namespace etna::distributed
