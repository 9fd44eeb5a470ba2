#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <etna/device/internal/graph/hazards.h>
#include <etna/device/internal/vulkan/api/diagnostics.h>
#include <etna/device/internal/vulkan/commands/index_errors.h>
#include <etna/device/internal/vulkan/commands/queue_entries.h>
#include <etna/device/internal/vulkan/commands/timestamps.h>
#include <etna/device/internal/vulkan/foreign/foreign_queue.h>
#include <etna/device/internal/vulkan/memory/memory.h>

namespace etna::vulkan {

/// A barrier's flags, from Stage bits.
VkPipelineStageFlags stages_of(unsigned bits);
VkAccessFlags writes_of(unsigned bits);
VkAccessFlags accesses_of(unsigned bits);

/// Makes what kernels wrote to mapped memory visible to the host once the command buffer is done.
void expose_kernel_writes(const VolkDeviceTable& vk, VkCommandBuffer commands);
/// Around work of the host in the middle of what is queued: makes what the device wrote before visible to the host, and
/// what the host wrote to the device. A submit alone does it only for what the host wrote before the submit.
void expose_to_host(const VolkDeviceTable& vk, VkCommandBuffer commands);
void take_from_host(const VolkDeviceTable& vk, VkCommandBuffer commands);

/// Registers an exit handler that shuts down the devices in use (context.cpp). May be called again.
void leave_at_exit();

/// A part of a graph's command buffers, and what else has to be done around them.
struct GraphPiece {
  std::span<const VkCommandBuffer> commands;
  std::array<std::uint64_t, gpu::kForeignPlaces> waits{};  ///< so much of the graph's foreign work must be done before
  std::vector<gpu::ForeignCall> behind;                    ///< foreign work that begins when the commands are done

  /// Whether some of that work is the host's, on mapped memory.
  bool begins_host_work() const {
    return std::any_of(behind.begin(), behind.end(), [](const auto& call) { return call.work->uses_mapped_memory(); });
  }
};

/// The only code that queues commands and emits barriers. Work is queued in order. It is submitted once about a
/// hundred dispatches or 256 MiB of touched bytes have accumulated, or when somebody waits; after four times as many
/// while the GPU has two batches to do.
///
/// Why batches: a submit costs the host 4 to 11 µs and an H100 12, a dispatch 0.2. Why no larger ones: the GPU should
/// start while the host still queues. Why ranges: on an NVIDIA H200 a dispatch after a barrier costs 2.1 µs, without
/// one 0.17.
///
/// A failure drops the commands of the open batch and leaves the queue ready for the next one; a lost device stays
/// lost. Not thread-safe: callers hold the device's mutex.
class CommandQueue {
 public:
  /// @param pipelines whose layout all pipelines have
  CommandQueue(LogicalDevice& device, const Pipelines& pipelines, const IndexErrors& index_errors,
               BufferSegments& segments);

  void dispatch(const Dispatch& dispatch, Pipeline& pipeline);
  /// An upload that a kernel does: no dispatch of anybody's, as far as stats() tell.
  void upload(const Dispatch& dispatch, Pipeline& pipeline);
  void launch(const CubinDispatch& dispatch, VkCuFunctionNVX function);
  void copy(std::string_view op, const BufferSpan& from, const BufferSpan& to);
  void fill(const BufferSpan& to, std::uint32_t word);
  void update(const BufferSpan& to, std::span<const std::byte> bytes);
  /// Makes what was copied to a mapped buffer visible to the host once the batch is done.
  void make_host_visible();

  /// Submits the open batch.
  void flush() { submit({}); }
  /// Submits the open batch, followed by command buffers encoded elsewhere, which begin with their own barrier. Later
  /// commands wait for them. They may be resubmitted while they are still running. @returns the mark of their end
  std::uint64_t execute(std::span<const GraphPiece> graph, std::uint64_t dispatches, std::uint64_t barriers);
  /// Submits the open batch; the work begins behind it. Later commands that touch its ranges wait for it.
  void foreign(const gpu::ForeignCall& call);
  /// Null, and `why`, where the device has no such queue.
  ForeignQueue* foreign_queue(ForeignPlace place, std::string& why);
  /// Whether foreign work has failed. Call after a wait. @throws what it threw
  void check_foreign() {
    for (const auto& last : last_foreign_)
      if (last) last->check();
  }
  /// Submits the open batch and waits for all submitted work.
  void finish();
  /// The mark at which everything queued so far is done; for wait().
  std::uint64_t mark() const { return open_batch_ ? submitted_ + 1 : submitted_; }
  void wait(std::uint64_t mark);
  /// Whether that mark has been reached; never waits.
  bool passed(std::uint64_t mark);

  /// At process exit: waits for submitted work, a few seconds at most, and drops the rest.
  void leave();

  const QueueStats& stats() const { return stats_; }
  /// For the profiler, and for command buffers encoded elsewhere that it should see.
  Timestamps& timestamps() { return timestamps_; }
  void count_pipeline() { ++stats_.pipelines; }

 private:
  /// The barrier before a command, where one is needed, and whether one stands behind it (barriers_everywhere()).
  struct Order {
    Barrier before;
    bool behind = false;
  };
  /// One batch: its commands, kept until it is submitted, so that pipelines are built side by side meanwhile; and the
  /// command buffer that they are then encoded into, reused once the GPU is done with it.
  struct Slot {
    VkCommandPool pool = VK_NULL_HANDLE;
    VkCommandBuffer buffer = VK_NULL_HANDLE;
    std::uint64_t value = 0;
    QueueEntries list;
    std::vector<Order> order;  ///< of each command
    std::vector<QueuedBy> by;  ///< of each command, while a profile is taken
    TimedCommands timed;
  };

  QueueEntry& begin(QueueEntry::Kind kind, std::string_view op);
  void add(std::span<const Range> reads, std::span<const Range> writes);
  bool is_busy();
  void encode_open(bool expose);
  void submit(std::span<const GraphPiece> behind);
  void add_batch(std::span<const VkCommandBuffer> commands, const std::array<std::uint64_t, gpu::kForeignPlaces>& waits,
                 std::span<const gpu::ForeignCall> behind);
  void run_foreign(std::span<const GraphPiece> graph, std::uint64_t mark);
  void wait_for_foreign(std::span<const Range> reads, std::span<const Range> writes);
  void wait_for_all_foreign();
  void pipeline_barrier(VkPipelineStageFlags before, VkAccessFlags written, VkPipelineStageFlags behind,
                        VkAccessFlags touched);
  [[noreturn]] void fail(VkResult result, const char* call);
  std::string unfinished_ops() const;
  Slot& open() { return slots_[current_]; }

  LogicalDevice& device_;
  const Pipelines& pipelines_;
  const IndexErrors& index_errors_;
  Hazards hazards_;
  std::array<Slot, 8> slots_;
  std::size_t current_ = 0;
  bool open_batch_ = false;
  bool for_host_ = false;    ///< the open batch copies something to the host
  bool from_host_ = false;   ///< the host writes something behind the commands that were submitted last
  std::uint64_t bytes_ = 0;  ///< touched by the open batch
  std::vector<VkCommandBuffer> submitting_;
  /// One call's VkSubmitInfo with what it refers to.
  struct Batch {
    std::size_t first = 0, count = 0;  ///< among submitting_
    std::array<VkSemaphore, 1 + gpu::kForeignPlaces> signals{};
    std::array<std::uint64_t, 1 + gpu::kForeignPlaces> raised{};
    std::array<VkSemaphore, gpu::kForeignPlaces> waits{};
    std::array<std::uint64_t, gpu::kForeignPlaces> awaited{};
    std::array<VkPipelineStageFlags, gpu::kForeignPlaces> stages{};
    std::uint32_t signal_count = 0, wait_count = 0;
    VkTimelineSemaphoreSubmitInfo timeline{};
  };
  std::vector<Batch> batches_;
  std::vector<VkSubmitInfo> submits_;

  /// Foreign work that may still run.
  struct RunningForeign {
    ForeignPlace place;
    std::uint64_t done;
    std::vector<Range> reads, writes;
  };
  BufferSegments& segments_;
  std::array<std::unique_ptr<ForeignQueue>, gpu::kForeignPlaces> foreign_;
  std::vector<RunningForeign> running_;
  std::array<std::uint64_t, gpu::kForeignPlaces> awaited_{};       ///< before the open batch begins
  std::array<std::uint64_t, gpu::kForeignPlaces> foreign_mark_{};  ///< the last one that was signalled to the queue
  std::array<std::shared_ptr<ForeignWork>, gpu::kForeignPlaces> last_foreign_;
  VkSemaphore timeline_ = VK_NULL_HANDLE;
  std::uint64_t submitted_ = 0, finished_ = 0;
  QueueStats stats_;
  Timestamps timestamps_;
};

}  // namespace etna::vulkan
