#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include <etna/device/internal/graph/schedule.h>
#include <etna/device/internal/os/process.h>
#include <etna/device/internal/vulkan/foreign/foreign_queue.h>

namespace etna::vulkan {
namespace {

/// Never destroyed, like its device. At exit, what waits for the device is not begun.
class HostQueue final : public ForeignQueue {
 public:
  explicit HostQueue(const LogicalDevice& device) : ForeignQueue(device, false) {
    std::thread([this] { loop(); }).detach();
  }

 private:
  struct Job {
    std::shared_ptr<ForeignWork> work;
    std::vector<Range> reads, writes;
    std::uint64_t after, number;
    std::function<bool()> step = {};  ///< empty: it was refused
    bool begun = false, ended = false;
  };

  void begin(std::uint64_t after, const gpu::ForeignCall& call, std::uint64_t number) override {
    Job job{call.work, {call.reads.begin(), call.reads.end()}, {call.writes.begin(), call.writes.end()}, after, number};
    std::exception_ptr wrong;
    try {
      job.step = call.work->prepare();
    } catch (...) {
      wrong = std::current_exception();
    }
    {
      const std::lock_guard lock(mutex_);
      jobs_.push_back(std::move(job));
    }
    changed_.notify_one();
    if (wrong) std::rethrow_exception(wrong);
  }

  void loop() {
    os::sleep_precisely();
    std::deque<Job> running;  ///< in order
    for (;;) {
      {
        std::unique_lock lock(mutex_);
        if (running.empty()) changed_.wait(lock, [this] { return !jobs_.empty(); });
        while (!jobs_.empty()) {
          running.push_back(std::move(jobs_.front()));
          jobs_.pop_front();
        }
      }
      if (advance(running))
        idle_ = 0;
      else if (++idle_ > kTurns)
        std::this_thread::sleep_for(std::chrono::microseconds(5));
    }
  }

  VkResult reached(std::uint64_t after, std::uint64_t nanoseconds) const {
    auto wait = structure<VkSemaphoreWaitInfo>(VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO);
    const VkSemaphore semaphore = to();
    wait.semaphoreCount = 1;
    wait.pSemaphores = &semaphore;
    wait.pValues = &after;
    return device_.vk.vkWaitSemaphores(device_.handle, &wait, nanoseconds);
  }

  /// @return whether something has happened
  bool advance(std::deque<Job>& running) {
    bool moved = false, lost = false;
    for (Job& job : running) {
      if (job.ended) continue;
      if (!job.begun) {
        const bool follows = std::any_of(running.begin(), running.end(), [&](const Job& earlier) {
          return earlier.number < job.number && !earlier.ended &&
                 graph::conflict({earlier.reads, earlier.writes}, {job.reads, job.writes});
        });
        if (follows) break;
        // Nothing else to do: the driver wakes this thread.
        const bool alone = &job == &running.front();
        const VkResult result = reached(job.after, alone ? 100'000'000 : 0);
        if (result == VK_TIMEOUT) break;
        lost = result != VK_SUCCESS;  // it reaches nothing any more, and nobody waits for it
        job.begun = moved = true;
        if (lost) job.work->abandon();
      }
      try {
        job.ended = lost || !job.step || job.step();
      } catch (...) {
        job.ended = true;  // its check() tells; the device goes on
      }
      moved = moved || job.ended;
    }
    while (!running.empty() && running.front().ended) {
      auto signal = structure<VkSemaphoreSignalInfo>(VK_STRUCTURE_TYPE_SEMAPHORE_SIGNAL_INFO);
      signal.semaphore = from();
      signal.value = running.front().number;
      running.pop_front();  // before somebody waits no more
      device_.vk.vkSignalSemaphore(device_.handle, &signal);
      moved = true;
    }
    return moved;
  }

  static constexpr int kTurns = 2000;  ///< without anything to do, before it sleeps for moments
  int idle_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> jobs_;
};

}  // namespace

std::unique_ptr<ForeignQueue> make_host_queue(const LogicalDevice& device) {
  return std::make_unique<HostQueue>(device);
}

}  // namespace etna::vulkan
