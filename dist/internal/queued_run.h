#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>

#include <etna/dist/internal/meeting.h>

namespace etna::distributed {

/// A collective that a device comes to later: it takes its turn among those of its group, and waits there.
class QueuedRun {
 public:
  /// The device has come to it.
  void reach() { move_to(kReached); }
  /// The device never will; nothing where it has.
  void give_up() { move_to(kGivenUp); }
  /// In the thread of collectives. @throws RankLost if the group ends first, DeviceError after give_up()
  void wait(const Meeting& meeting);
  /// It was done, or will never be.
  void end();
  bool ended() const { return ended_.load(std::memory_order_acquire); }
  void wait_for_end();

 private:
  enum State { kQueued, kReached, kGivenUp };
  void move_to(State next);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<State> state_ = kQueued;
  std::atomic<bool> ended_ = false;
};

}  // namespace etna::distributed
