#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <etna/device/vulkan/api/diagnostics.h>
#include <etna/device/vulkan/commands/hazards.h>
#include <etna/device/vulkan/commands/timestamps.h>
#include <etna/device/vulkan/memory/memory.h>
#include <etna/device/vulkan/pipelines/cubin.h>

namespace etna::vulkan {

/// A barrier's flags, from Stage bits.
VkPipelineStageFlags stages_of(unsigned bits);
VkAccessFlags writes_of(unsigned bits);
VkAccessFlags accesses_of(unsigned bits);

/// Registers an exit handler that shuts down the devices in use (context.cpp). May be called again.
void leave_at_exit();

/// The only code that records commands and emits barriers. Work is queued in order. It is submitted once about a
/// hundred dispatches or 256 MiB of touched bytes have accumulated, or when somebody waits.
///
/// Why batches: a submit costs 4 to 11 µs, a dispatch 0.2. Why no larger ones: the GPU should start while the host
/// still records. Why ranges: on an NVIDIA H200 a dispatch after a barrier costs 2.1 µs, without one 0.17.
///
/// A failure drops the commands of the open batch and leaves the recorder ready for the next one; a lost device stays
/// lost. Not thread-safe: callers hold the device's mutex.
class Recorder {
 public:
  explicit Recorder(LogicalDevice& device);

  void dispatch(const Dispatch& dispatch, VkPipeline pipeline, VkPipelineLayout layout);
  /// An upload done by a kernel; stats() does not count it as a dispatch.
  void upload(const Dispatch& dispatch, VkPipeline pipeline, VkPipelineLayout layout);
  void launch(const CubinDispatch& dispatch, VkCuFunctionNVX function);
  void copy(std::string_view op, const BufferSpan& from, const BufferSpan& to);
  void fill(const BufferSpan& to, std::uint32_t word);
  void update(const BufferSpan& to, const void* bytes);
  /// Makes bytes copied to a mapped buffer visible to the host once the batch is done.
  void make_host_visible();

  /// Submits the open batch.
  void flush() { submit({}); }
  /// Submits the open batch, followed by command buffers recorded elsewhere, which begin with their own barrier. Later
  /// commands wait for them. They may be resubmitted while they are still running. @returns the mark of their end
  std::uint64_t execute(std::span<const VkCommandBuffer> baked, std::uint64_t dispatches, std::uint64_t barriers);
  /// Submits the open batch and waits for all submitted work.
  void finish();
  /// The mark at which everything recorded so far is done; for wait().
  std::uint64_t mark() const { return recording_ ? submitted_ + 1 : submitted_; }
  void wait(std::uint64_t mark);
  /// Whether that mark has been reached; never waits.
  bool passed(std::uint64_t mark);

  /// At process exit: waits for submitted work, a few seconds at most, and drops the rest.
  void leave();

  const QueueStats& stats() const { return stats_; }
  /// For the profiler, and for command buffers recorded elsewhere that it should see.
  Timestamps& timestamps() { return timestamps_; }
  void count_pipeline() { ++stats_.pipelines; }

 private:
  /// Names of ops, kept for the message of DeviceLost; truncated, so that recording never allocates.
  struct OpName {
    std::array<char, 32> text{};
  };
  /// One batch's command buffer; reused once the GPU has finished it.
  struct Slot {
    VkCommandPool pool = VK_NULL_HANDLE;
    VkCommandBuffer commands = VK_NULL_HANDLE;
    std::uint64_t value = 0;
    std::vector<OpName> ops;
    TimedCommands timed;
  };

  VkCommandBuffer begin(std::string_view op);
  void submit(std::span<const VkCommandBuffer> behind);
  void order(Stage stage, std::span<const Range> reads, std::span<const Range> writes);
  void done(std::uint64_t bytes);
  void pipeline_barrier(VkPipelineStageFlags before, VkAccessFlags written, VkPipelineStageFlags behind,
                        VkAccessFlags touched);
  [[noreturn]] void fail(VkResult result, const char* call);
  std::string unfinished_ops() const;
  Slot& open() { return slots_[current_]; }

  LogicalDevice& device_;
  Hazards hazards_;
  std::array<Slot, 8> slots_;
  std::size_t current_ = 0;
  bool recording_ = false;
  std::uint64_t bytes_ = 0;  ///< touched by the open batch
  VkPipeline bound_ = VK_NULL_HANDLE;
  std::vector<VkCommandBuffer> submitting_;
  VkSemaphore timeline_ = VK_NULL_HANDLE;
  std::uint64_t submitted_ = 0, finished_ = 0;
  QueueStats stats_;
  Timestamps timestamps_;
};

}  // namespace etna::vulkan
