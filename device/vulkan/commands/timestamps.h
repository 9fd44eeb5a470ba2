#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <etna/device/profile/profiler.h>
#include <etna/device/vulkan/api/diagnostics.h>
#include <etna/device/vulkan/commands/gpu_clock.h>
#include <etna/device/vulkan/commands/hazards.h>

namespace etna::vulkan {

class TimedCommands;

/// A device's side of a profile: collects what its command buffers' timestamps said. Callers hold the device's mutex.
class Timestamps {
 public:
  explicit Timestamps(const LogicalDevice& device) : device_(device) {}

  /// True while a profile is being taken of this device, with times. Command buffers recorded now should carry
  /// timestamps.
  bool active() const { return active_; }

  /// Begins a profile. The queue is idle. Never throws: a device that cannot tell time is profiled without.
  void begin(const profile::Options& options, const QueueStats& stats);
  /// True from begin() to take(), with times or without.
  bool begun() const { return begun_; }
  /// Reads all that was submitted, which the GPU is done with, and ends the profile. Threads have their process-wide
  /// numbers.
  profile::GpuProfile take(const QueueStats& stats);
  std::uint64_t dropped() const { return dropped_; }

 private:
  friend class TimedCommands;
  void untimed(const std::string& why);

  const LogicalDevice& device_;
  std::optional<GpuClock> clock_;
  ClockPair start_;
  std::vector<TimedCommands*> commands_;  ///< all that hold queries
  profile::GpuProfile gathered_;          ///< spans' and batches' GPU times are still ticks
  QueueStats before_;
  std::uint64_t dropped_ = 0;
  bool active_ = false, begun_ = false, exact_ = false;
};

/// The timestamps in one command buffer. It does nothing where no profile was being taken at reset().
///
/// Work between two barriers is a group, timed together: from the moment its first dispatch was launched, which is when
/// the group before was done, to the same moment of the next group. One timestamp a group, written while the group
/// runs, costs an NVIDIA H200 0.05 µs. One at the begin and one at the end of every dispatch cost 2 µs, since the GPU
/// drains for each; that is what Timing::dispatches asks for. (One for each dispatch of a group, without waiting: 0.8
/// µs, since they no longer overlap.)
///
/// A buffer that is recorded for one submit, again and again (the recorder's batches):
///     begin the buffer; timed.reset(timestamps, commands, 128);
///     timed.barrier(commands); vkCmdPipelineBarrier(...);                          // where a barrier is needed
///     timed.begin(commands, "matmul"); vkCmdDispatch(...); timed.end(commands);
///     timed.finish(commands); end the buffer
///     vkQueueSubmit(...); timed.submitted(when);
/// and reset() comes only when the GPU is done with that submit: it reads the results first.
///
/// A buffer that is recorded once and submitted many times keeps its timestamps and resets the queries itself, so the
/// results must be read between two submits. Record such a buffer beside the plain one when `timestamps.active()` first
/// says so, and submit it in the plain one's place as long as it does:
///     each time:  recorder.wait(mark of its last submit); timed.collect(); vkQueueSubmit(...); timed.submitted(when);
/// Waiting for the submit before last, of two or three such buffers used in turn, leaves the GPU busy meanwhile. Its
/// labels are those of the moment when the work was first recorded (a KeepLabels lets Labels::now() tell them without a
/// profile).
class TimedCommands {
 public:
  TimedCommands() = default;
  /// The GPU is done with the buffer; results that were not collected are lost.
  ~TimedCommands();
  TimedCommands(const TimedCommands&) = delete;
  TimedCommands& operator=(const TimedCommands&) = delete;

  /// Forgets what was recorded and records the reset of the queries, for up to `spans` pieces of work (more are counted
  /// and not told apart). Collects first.
  void reset(Timestamps& timestamps, VkCommandBuffer commands, std::size_t spans);
  bool recording() const { return recording_; }

  /// Before each barrier that makes later work wait for all before it.
  void barrier(VkCommandBuffer commands) {
    if (recording_) close_group(commands);
  }
  /// Around each piece of work.
  void begin(VkCommandBuffer commands, std::string_view op, Stage stage = kCompute) {
    if (recording_) write_begin(commands, op, profile::Labels::now(), stage);
  }
  void begin(VkCommandBuffer commands, std::string_view op, const profile::Labels& labels, Stage stage = kCompute) {
    if (recording_) write_begin(commands, op, labels, stage);
  }
  void end(VkCommandBuffer commands) {
    if (recording_) write_end(commands);
  }
  /// Behind the last.
  void finish(VkCommandBuffer commands) {
    if (recording_) write_finish(commands);
  }

  /// After each vkQueueSubmit of the buffer. @param host_ns when it was called
  void submitted(std::int64_t host_ns) {
    if (recording_) note_submit(host_ns);
  }
  /// Reads the results of the last submit, which the GPU is done with. Does nothing where they were read.
  void collect();

 private:
  friend class Timestamps;
  struct Piece {
    const char* name;
    profile::Labels labels;
    std::int64_t recorded;
    std::uint32_t thread;
    std::uint32_t begin, end;  ///< queries
    std::uint32_t at_once;
  };
  void write_begin(VkCommandBuffer commands, std::string_view op, const profile::Labels& labels, Stage stage);
  void write_end(VkCommandBuffer commands);
  void mark_group(VkCommandBuffer commands);
  void close_group(VkCommandBuffer commands);
  void write_finish(VkCommandBuffer commands);
  void note_submit(std::int64_t host_ns);
  void write(VkCommandBuffer commands, VkPipelineStageFlagBits stage);

  Timestamps* timestamps_ = nullptr;
  VkQueryPool pool_ = VK_NULL_HANDLE;
  std::size_t room_ = 0;  ///< pieces that the pool has queries for
  std::vector<Piece> pieces_;
  std::vector<std::uint64_t> ticks_;
  std::uint32_t queries_ = 0;  ///< written
  std::size_t group_ = 0;      ///< the piece that the open group begins with
  bool marked_ = false;        ///< the open group has its timestamp
  bool exact_ = false;
  bool recording_ = false;  ///< holds timestamps since reset()
  bool open_ = false;       ///< between write_begin() and write_end()
  bool copies_ = false;     ///< what is between them is no dispatch
  bool pending_ = false;    ///< submitted and not collected
  std::uint32_t submits_ = 0;
  std::int64_t submitted_ = 0;
  std::uint32_t submitter_ = 0;
};

}  // namespace etna::vulkan
