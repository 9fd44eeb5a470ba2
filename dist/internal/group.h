#pragma once

#include <memory>
#include <string>
#include <vector>

#include <etna/dist/internal/engine.h>
#include <etna/dist/internal/meeting.h>
#include <etna/dist/internal/place.h>
#include <etna/dist/internal/queued_run.h>
#include <etna/dist/internal/worker.h>

namespace etna::distributed {

/// The group that this process is in. Collectives run one after the other, on a thread of their own.
class Group {
 public:
  /// Joins. @throws as init()
  Group(const Options& options, Place place);
  ~Group();

  const Place& place() const { return place_; }
  /// No other group of this process has it.
  std::uint64_t id() const { return id_; }
  /// That of tensors on the host. @throws Error where the group has none
  Engine& engine();
  /// That of tensors on a GPU; null: they go through the host's. All ranks come here with their first such tensor.
  Engine* engine_on(Device device, int number = 0);
  bool has_host_engine() const { return engine_ != nullptr; }
  /// Names what moves tensors.
  std::string engines() const;
  Meeting& meeting() { return *meeting_; }

  /// Some of the ranks (ProcessGroup).
  struct Part {
    std::vector<int> members;
    int rank = 0;  ///< of this process among them
    std::unique_ptr<Engine> engine = {}, device_engine = {};
    std::uint64_t number_of_collective = 0;
  };
  /// @return its number, from 1 on @throws Error where the engine has no parts
  int add_part(const std::vector<int>& members);
  /// @throws Error for a number of another group
  Part& part(int number);
  /// That of a ProcessGroup. @throws as engine() and part()
  Engine& engine_of(int number);

  /// Runs a collective on contiguous tensors that the engine takes. @throws RankLost, RanksDiffer
  void run(Collective collective, const Tensor& in, const Tensor& out);
  /// The same without waiting: tensors are not to be touched before finish(). An engine that cannot run on another
  /// thread queues it and returns.
  void start(Collective collective, const Tensor& in, const Tensor& out);
  /// The same when a device comes to it: QueuedRun::reach(). It takes its turn now: whatever is started later is done
  /// later, on all ranks. @param in, out on the host @throws what an earlier one threw
  std::shared_ptr<QueuedRun> queue(Collective collective, const Tensor& in, const Tensor& out);
  /// Waits for everything that was started. @throws what the first of it threw
  void finish();
  /// The same without waiting.
  void check();
  /// Sleeps until every rank does; ends what belongs to the group.
  void leave();

 private:
  void require_alive(const Collective& collective) const;
  void number(Collective& collective);
  void join(const Options& options);
  void count_local_ranks(double seconds);

  const std::uint64_t id_;
  Place place_;
  Options options_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Engine> device_engine_;
  std::string why_no_device_engine_;
  bool asked_for_device_engine_ = false;
  std::vector<Part> parts_;
  std::unique_ptr<MeetingServer> server_;
  std::unique_ptr<Meeting> meeting_;
  std::unique_ptr<Worker> worker_;
  std::string file_;  ///< that rank 0 wrote for the others to meet
  std::uint64_t number_ = 0;
  bool left_ = false;
};

/// Null in a group of one.
Group* group();
/// @throws Error naming what is called, in a group of one
Group& require_group(const char* what);

}  // namespace etna::distributed
