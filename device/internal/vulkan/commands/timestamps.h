#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <etna/device/internal/graph/hazards.h>
#include <etna/device/internal/vulkan/api/diagnostics.h>
#include <etna/device/internal/vulkan/commands/gpu_clock.h>
#include <etna/device/profile/profiler.h>

namespace etna::vulkan {

class TimedCommands;

/// A device's part of a profile: collects the timestamps of its command buffers. Callers hold the device's mutex.
class Timestamps {
 public:
  explicit Timestamps(const LogicalDevice& device) : device_(device) {}

  /// True while this device is being profiled, with times. Command buffers encoded now should carry timestamps.
  bool active() const { return active_; }

  /// Begins a profile. The queue is idle. Never throws: a device without timestamps is profiled without times.
  void begin(const profile::Options& options, const QueueStats& stats);
  /// True from begin() to take(), with times or without.
  bool begun() const { return begun_; }
  /// Reads the results of all submitted work, which the GPU has finished, and ends the profile. Threads have their
  /// process-wide numbers.
  profile::GpuProfile take(const QueueStats& stats);
  std::uint64_t dropped() const { return dropped_; }

 private:
  friend class TimedCommands;
  void untimed(const std::string& why);

  const LogicalDevice& device_;
  std::optional<GpuClock> clock_;
  ClockPair start_;
  std::vector<TimedCommands*> commands_;  ///< all that hold queries
  profile::GpuProfile gathered_;          ///< GPU times of spans and batches are still in ticks
  QueueStats before_;
  std::uint64_t dropped_ = 0;
  bool active_ = false, begun_ = false, exact_ = false;
};

/// Who queued a piece of work, and when.
struct QueuedBy {
  profile::Labels labels;
  std::int64_t at = profile::detail::now_ns();
  std::uint32_t thread = profile::detail::thread_number();
};

/// The timestamps in one command buffer. Does nothing if no profile was being taken at reset().
///
/// Work between two barriers is a group and timed together: from the launch of its first dispatch, which is when the
/// previous group was done, to the same moment of the next group. One timestamp per group, written while the group
/// runs, costs an NVIDIA H200 0.05 µs. One at the begin and one at the end of every dispatch cost 2 µs, since the GPU
/// drains for each; that is what Timing::dispatches asks for. (One for each dispatch of a group, without waiting: 0.8
/// µs, since they no longer overlap.)
///
/// A buffer that is encoded anew for each submit (the queue's batches):
///     begin the buffer; timed.reset(timestamps, commands, 128);
///     timed.barrier(commands); vkCmdPipelineBarrier(...);                          // where a barrier is needed
///     timed.begin(commands, "matmul"); vkCmdDispatch(...); timed.end(commands);
///     timed.finish(commands); end the buffer
///     vkQueueSubmit(...); timed.submitted(when);
///   Call reset() only when the GPU is done with that submit: it reads the results first.
///
/// A buffer that is encoded once and submitted many times keeps its timestamps and resets the queries itself, so the
/// results must be read between two submits. Encode such a buffer in addition to the plain one when
/// `timestamps.active()` first becomes true, and submit it instead of the plain one as long as it stays true:
///     each time:  queue.wait(mark of its last submit); timed.collect(); vkQueueSubmit(...); timed.submitted(when);
///   Use two or three such buffers in turn and wait for the submit before last: that keeps the GPU busy. Labels are
///   those of the moment when the work was first queued (a KeepLabels makes Labels::now() work without a profile).
class TimedCommands {
 public:
  TimedCommands() = default;
  /// The GPU is done with the buffer; uncollected results are lost.
  ~TimedCommands();
  TimedCommands(const TimedCommands&) = delete;
  TimedCommands& operator=(const TimedCommands&) = delete;

  /// Discards what was measured and encodes the reset of the queries, for up to `spans` pieces of work (more are
  /// counted but not timed individually). Collects first.
  void reset(Timestamps& timestamps, VkCommandBuffer commands, std::size_t spans);
  bool timing() const { return timing_; }

  /// Call before each barrier that makes later work wait for all earlier work.
  void barrier(VkCommandBuffer commands) {
    if (timing_) close_group(commands);
  }
  /// Call around each piece of work.
  void begin(VkCommandBuffer commands, std::string_view op, Stage stage = kCompute) {
    if (timing_) write_begin(commands, op, {profile::Labels::now()}, stage);
  }
  void begin(VkCommandBuffer commands, std::string_view op, const profile::Labels& labels, Stage stage = kCompute) {
    if (timing_) write_begin(commands, op, {labels}, stage);
  }
  /// For work that was queued earlier, perhaps by another thread.
  void begin(VkCommandBuffer commands, std::string_view op, const QueuedBy& by, Stage stage) {
    if (timing_) write_begin(commands, op, by, stage);
  }
  void end(VkCommandBuffer commands) {
    if (timing_) write_end(commands);
  }
  /// Call after the last one.
  void finish(VkCommandBuffer commands) {
    if (timing_) write_finish(commands);
  }

  /// Call after each vkQueueSubmit of the buffer. @param host_ns when it was called
  void submitted(std::int64_t host_ns) {
    if (timing_) note_submit(host_ns);
  }
  /// Reads the results of the last submit, which the GPU has finished. Does nothing if they were already read.
  void collect();

 private:
  friend class Timestamps;
  struct Piece {
    const char* name;
    profile::Labels labels;
    std::int64_t queued;
    std::uint32_t thread;
    std::uint32_t begin, end;  ///< query indices
    std::uint32_t at_once;
  };
  void write_begin(VkCommandBuffer commands, std::string_view op, const QueuedBy& by, Stage stage);
  void write_end(VkCommandBuffer commands);
  void mark_group(VkCommandBuffer commands);
  void close_group(VkCommandBuffer commands);
  void write_finish(VkCommandBuffer commands);
  void note_submit(std::int64_t host_ns);
  void write(VkCommandBuffer commands, VkPipelineStageFlagBits stage);

  Timestamps* timestamps_ = nullptr;
  VkQueryPool pool_ = VK_NULL_HANDLE;
  std::size_t room_ = 0;  ///< pieces of work that the pool has queries for
  std::vector<Piece> pieces_;
  std::vector<std::uint64_t> ticks_;
  std::uint32_t queries_ = 0;  ///< queries written
  std::size_t group_ = 0;      ///< first piece of the open group
  bool marked_ = false;        ///< the open group has its timestamp
  bool exact_ = false;
  bool timing_ = false;   ///< timestamps were written since reset()
  bool open_ = false;     ///< between write_begin() and write_end()
  bool copies_ = false;   ///< the work between them is not a dispatch
  bool pending_ = false;  ///< submitted and not collected
  std::uint32_t submits_ = 0;
  std::int64_t submitted_ = 0;
  std::uint32_t submitter_ = 0;
};

}  // namespace etna::vulkan
