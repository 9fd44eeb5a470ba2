#include <etna/device/internal/vulkan/commands/timestamps.h>

#include <algorithm>
#include <exception>
#include <numeric>
#include <utility>

#include <fmt/format.h>

namespace etna::vulkan {
namespace {

/// Batches were read when their buffers became free, which is not the order in which they ran.
void order_by_submit(profile::GpuProfile& gpu) {
  std::vector<std::uint32_t> order(gpu.batches.size()), place(gpu.batches.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return gpu.batches[a].submitted < gpu.batches[b].submitted;
  });
  std::vector<profile::GpuBatch> sorted;
  for (std::uint32_t from : order) {
    place[from] = static_cast<std::uint32_t>(sorted.size());
    sorted.push_back(gpu.batches[from]);
  }
  gpu.batches = std::move(sorted);
  for (profile::GpuSpan& span : gpu.spans) span.batch = place[span.batch];
  std::stable_sort(gpu.spans.begin(), gpu.spans.end(),
                   [](const profile::GpuSpan& a, const profile::GpuSpan& b) { return a.batch < b.batch; });
}

}  // namespace

void Timestamps::untimed(const std::string& why) {
  if (gathered_.untimed.empty()) gathered_.untimed = why;
}

void Timestamps::begin(const profile::Options& options, const QueueStats& stats) {
  gathered_ = {};
  gathered_.device = device_.device;
  gathered_.name = device_.adapter.info.name;
  before_ = stats;
  dropped_ = 0;
  begun_ = true;
  active_ = false;
  exact_ = options.timing == profile::Timing::dispatches ||
           (options.timing == profile::Timing::automatic && device_.adapter.info.kind == "software");
  if (!options.gpu) return untimed("the profile was taken without GPU times");
  try {
    if (!clock_) clock_.emplace(device_);
    if (clock_->valid_bits() == 0) return untimed("its queue has no timestamps");
    start_ = clock_->read();
    active_ = true;
  } catch (const std::exception& error) {
    untimed(fmt::format("its clock cannot be read: {}", error.what()));
  }
}

profile::GpuProfile Timestamps::take(const QueueStats& stats) {
  if (!device_.lost.empty()) untimed("it was lost; what was read before is here");
  for (TimedCommands* commands : commands_) {
    if (device_.lost.empty()) commands->collect();
    commands->pending_ = false;
  }
  if (active_) {
    ClockLine line(start_, clock_->ns_per_tick(), clock_->valid_bits());
    gathered_.clock = clock_->method();
    gathered_.exact = exact_;
    gathered_.clock_error_ns = start_.error_ns;
    if (device_.lost.empty()) {
      try {
        line.correct(clock_->read());
      } catch (const std::exception&) {
        // Keeps the line through the first reading alone.
      }
    }
    order_by_submit(gathered_);
    for (profile::GpuSpan& span : gathered_.spans) {
      const std::int64_t near = gathered_.batches[span.batch].submitted;
      span.begin = line.host_ns(static_cast<std::uint64_t>(span.begin), near);
      span.end = std::max(span.begin, line.host_ns(static_cast<std::uint64_t>(span.end), near));
    }
    for (profile::GpuBatch& batch : gathered_.batches) {
      const std::int64_t near = batch.submitted;
      batch.begin = line.host_ns(static_cast<std::uint64_t>(batch.begin), near);
      batch.end = line.host_ns(static_cast<std::uint64_t>(batch.end), near);
    }
  }
  gathered_.dispatches = stats.dispatches - before_.dispatches;
  gathered_.barriers = stats.barriers - before_.barriers;
  gathered_.submits = stats.submits - before_.submits;
  active_ = begun_ = false;
  return std::exchange(gathered_, {});
}

TimedCommands::~TimedCommands() {
  if (timestamps_ == nullptr) return;
  const LogicalDevice& device = timestamps_->device_;
  device.vk.vkDestroyQueryPool(device.handle, pool_, nullptr);
  std::erase(timestamps_->commands_, this);
}

void TimedCommands::reset(Timestamps& timestamps, VkCommandBuffer commands, std::size_t spans) {
  collect();
  pieces_.clear();
  submits_ = 0;
  queries_ = 0;
  group_ = 0;
  open_ = marked_ = timing_ = false;
  if (!timestamps.active()) return;
  const LogicalDevice& device = timestamps.device_;
  if (timestamps_ == nullptr) {
    timestamps_ = &timestamps;
    timestamps.commands_.push_back(this);
  }
  if (room_ < spans) {
    device.vk.vkDestroyQueryPool(device.handle, std::exchange(pool_, VK_NULL_HANDLE), nullptr);
    room_ = 0;
    auto info = structure<VkQueryPoolCreateInfo>(VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO);
    info.queryType = VK_QUERY_TYPE_TIMESTAMP;
    info.queryCount = static_cast<std::uint32_t>(2 * spans);
    if (VkResult result = device.vk.vkCreateQueryPool(device.handle, &info, nullptr, &pool_)) {
      return timestamps.untimed(fmt::format("vkCreateQueryPool failed: {}", str(result)));
    }
    room_ = spans;
    pieces_.reserve(spans);
    ticks_.resize(2 * spans);
  }
  device.vk.vkCmdResetQueryPool(commands, pool_, 0, static_cast<std::uint32_t>(2 * room_));
  exact_ = timestamps.exact_;
  timing_ = true;
}

void TimedCommands::write(VkCommandBuffer commands, VkPipelineStageFlagBits stage) {
  timestamps_->device_.vk.vkCmdWriteTimestamp(commands, stage, pool_, queries_++);
}

void TimedCommands::write_begin(VkCommandBuffer commands, std::string_view op, const QueuedBy& by, Stage stage) {
  if (pieces_.size() == room_) {
    ++timestamps_->dropped_;
    return;
  }
  if (exact_ || pieces_.empty()) write(commands, VK_PIPELINE_STAGE_TOP_OF_PIPE_BIT);
  // A copy after dispatches may stall the front end until they are done, and delay everything after it.
  copies_ = stage == kTransfer;
  if (copies_ && pieces_.size() > group_) mark_group(commands);
  pieces_.push_back({.name = profile::detail::kept(op),
                     .labels = by.labels,
                     .queued = by.at,
                     .thread = by.thread,
                     .begin = queries_ - 1,
                     .end = queries_,
                     .at_once = 1});
  open_ = true;
}

void TimedCommands::write_end(VkCommandBuffer commands) {
  if (!std::exchange(open_, false)) return;
  if (exact_) {
    write(commands, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT);
  } else if (copies_) {
    mark_group(commands);
  }
}

/// The first group begins with the buffer's first timestamp, every other one with its own. That timestamp waits for
/// nothing: the GPU's front end reaches it when it has launched the group, and it launches the group when the previous
/// one is done.
void TimedCommands::mark_group(VkCommandBuffer commands) {
  if (exact_ || std::exchange(marked_, true) || group_ == 0) return;
  write(commands, VK_PIPELINE_STAGE_TOP_OF_PIPE_BIT);
}

void TimedCommands::close_group(VkCommandBuffer commands) {
  const std::size_t count = pieces_.size() - group_;
  if (exact_ || count == 0) return;
  mark_group(commands);
  marked_ = false;
  for (std::size_t i = group_; i < pieces_.size(); ++i) {
    pieces_[i].begin = queries_ - 1;
    pieces_[i].end = queries_;
    pieces_[i].at_once = static_cast<std::uint32_t>(count);
  }
  group_ = pieces_.size();
}

void TimedCommands::write_finish(VkCommandBuffer commands) {
  close_group(commands);
  if (!exact_ && !pieces_.empty()) write(commands, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT);
}

void TimedCommands::note_submit(std::int64_t host_ns) {
  pending_ = timestamps_->active() && !pieces_.empty();
  submitted_ = host_ns;
  submitter_ = profile::detail::thread_number();
  ++submits_;
}

void TimedCommands::collect() {
  if (!std::exchange(pending_, false)) return;
  profile::GpuProfile& to = timestamps_->gathered_;
  if (to.spans.size() + pieces_.size() > profile::detail::max_spans()) {
    timestamps_->dropped_ += pieces_.size();
    return;
  }
  if (!exact_ && group_ < pieces_.size())
    return timestamps_->untimed("commands were submitted that finish() never saw");
  const LogicalDevice& device = timestamps_->device_;
  VkResult result = device.vk.vkGetQueryPoolResults(device.handle, pool_, 0, queries_, queries_ * sizeof(std::uint64_t),
                                                    ticks_.data(), sizeof(std::uint64_t), VK_QUERY_RESULT_64_BIT);
  if (result != VK_SUCCESS) return timestamps_->untimed(fmt::format("vkGetQueryPoolResults failed: {}", str(result)));
  const auto batch = static_cast<std::uint32_t>(to.batches.size());
  to.batches.push_back({.submitted = submitted_,
                        .begin = static_cast<std::int64_t>(ticks_[0]),
                        .end = static_cast<std::int64_t>(ticks_[queries_ - 1]),
                        .thread = submitter_,
                        .spans = static_cast<std::uint32_t>(pieces_.size())});
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    const Piece& piece = pieces_[i];
    const bool again = submits_ > 1;
    to.spans.push_back({.name = piece.name,
                        .node = piece.labels.node,
                        .phase = piece.labels.phase,
                        .batch = batch,
                        .thread = again ? submitter_ : piece.thread,
                        .queued = again ? submitted_ : piece.queued,
                        .at_once = piece.at_once,
                        .begin = static_cast<std::int64_t>(ticks_[piece.begin]),
                        .end = static_cast<std::int64_t>(ticks_[piece.end])});
  }
}

}  // namespace etna::vulkan
