#include <etna/dist/internal/queued_run.h>

#include <chrono>

#include <etna/device/error.h>
#include <etna/dist/dist.h>

namespace etna::distributed {

void QueuedRun::move_to(State next) {
  if (state_ != kQueued) return;
  {
    const std::lock_guard lock(mutex_);
    state_ = next;
  }
  changed_.notify_all();
}

void QueuedRun::wait(const Meeting& meeting) {
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, std::chrono::milliseconds(50), [this] { return state_ != kQueued; }))
    if (meeting.failed()) throw RankLost("distributed: " + meeting.failure() + "; the group has ended");
  if (state_ == kGivenUp) throw DeviceError("distributed: the device was lost before a collective of a captured step");
}

void QueuedRun::end() {
  {
    const std::lock_guard lock(mutex_);
    ended_.store(true, std::memory_order_release);
  }
  changed_.notify_all();
}

void QueuedRun::wait_for_end() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return ended(); });
}

}  // namespace etna::distributed
