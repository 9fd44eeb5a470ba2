#include <etna/device/internal/vulkan/commands/command_queue.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include <etna/device/error.h>
#include <etna/device/internal/vulkan/api/injection.h>

namespace etna::vulkan {
namespace {

constexpr std::size_t kBatchDispatches = 100;
constexpr std::size_t kLargestBatch = 1000;
constexpr std::uint64_t kBatchBytes = std::uint64_t{256} << 20;
constexpr int kGrowth = 4;  ///< a batch may grow to so many times these while the GPU has enough to do
std::atomic<int> injected_failure{0};

std::uint64_t touched(std::span<const Range> reads, std::span<const Range> writes) {
  std::uint64_t bytes = 0;
  for (Range r : reads) bytes += r.bytes;
  for (Range r : writes) bytes += r.bytes;
  return bytes;
}

}  // namespace

namespace {

std::atomic<bool>& everywhere() {
  static std::atomic<bool> on = [] {
    const char* value = std::getenv("ETNA_BARRIERS");
    return value != nullptr && std::strcmp(value, "all") == 0;
  }();
  return on;
}

}  // namespace

bool barriers_everywhere() { return everywhere(); }
void set_barriers_everywhere(bool on) { everywhere() = on; }

VkPipelineStageFlags stages_of(unsigned bits) {
  return (bits & kCompute ? VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT : 0) |
         (bits & kTransfer ? VK_PIPELINE_STAGE_TRANSFER_BIT : 0);
}
VkAccessFlags writes_of(unsigned bits) {
  return (bits & kCompute ? VK_ACCESS_SHADER_WRITE_BIT : 0) | (bits & kTransfer ? VK_ACCESS_TRANSFER_WRITE_BIT : 0);
}
VkAccessFlags accesses_of(unsigned bits) {
  return (bits & kCompute ? VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT : 0) |
         (bits & kTransfer ? VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT : 0);
}

void injection::fail_next_submit(int vk_result) { injected_failure = vk_result; }

void expose_kernel_writes(const VolkDeviceTable& vk, VkCommandBuffer commands) {
  auto memory = structure<VkMemoryBarrier>(VK_STRUCTURE_TYPE_MEMORY_BARRIER);
  memory.srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT;
  memory.dstAccessMask = VK_ACCESS_HOST_READ_BIT;
  vk.vkCmdPipelineBarrier(commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &memory, 0,
                          nullptr, 0, nullptr);
}

// A semaphore orders all stages. The barrier waits for it because all stages are among its own: a barrier of the host's
// stage alone may come before the semaphore.
void expose_to_host(const VolkDeviceTable& vk, VkCommandBuffer commands) {
  auto memory = structure<VkMemoryBarrier>(VK_STRUCTURE_TYPE_MEMORY_BARRIER);
  memory.srcAccessMask = VK_ACCESS_MEMORY_WRITE_BIT;
  memory.dstAccessMask = VK_ACCESS_HOST_READ_BIT | VK_ACCESS_HOST_WRITE_BIT;
  vk.vkCmdPipelineBarrier(commands, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT,
                          VK_PIPELINE_STAGE_HOST_BIT | VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, 0, 1, &memory, 0, nullptr, 0,
                          nullptr);
}

void take_from_host(const VolkDeviceTable& vk, VkCommandBuffer commands) {
  auto memory = structure<VkMemoryBarrier>(VK_STRUCTURE_TYPE_MEMORY_BARRIER);
  memory.srcAccessMask = VK_ACCESS_HOST_WRITE_BIT | VK_ACCESS_MEMORY_WRITE_BIT;
  memory.dstAccessMask = VK_ACCESS_MEMORY_READ_BIT | VK_ACCESS_MEMORY_WRITE_BIT;
  vk.vkCmdPipelineBarrier(commands, VK_PIPELINE_STAGE_HOST_BIT | VK_PIPELINE_STAGE_ALL_COMMANDS_BIT,
                          VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, 0, 1, &memory, 0, nullptr, 0, nullptr);
}

namespace {

/// Whether work of the host begins before the first command of a graph.
bool begins_with_host_work(std::span<const GraphPiece> graph) {
  for (const GraphPiece& piece : graph) {
    if (!piece.commands.empty()) return false;
    if (piece.begins_host_work()) return true;
  }
  return false;
}

/// Whether it is waited for behind the last one.
bool ends_with_host_work(std::span<const GraphPiece> graph) {
  if (std::none_of(graph.begin(), graph.end(), [](const GraphPiece& piece) { return piece.begins_host_work(); }))
    return false;
  for (std::size_t i = graph.size(); i > 0 && graph[i - 1].commands.empty(); --i)
    if (graph[i - 1].waits[static_cast<std::size_t>(ForeignPlace::host)] > 0) return true;
  return false;
}

}  // namespace

CommandQueue::CommandQueue(LogicalDevice& device, const Pipelines& pipelines, const IndexErrors& index_errors,
                           BufferSegments& segments)
    : device_(device), pipelines_(pipelines), index_errors_(index_errors), segments_(segments), timestamps_(device) {
  auto type = structure<VkSemaphoreTypeCreateInfo>(VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO);
  type.semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE;
  auto semaphore = structure<VkSemaphoreCreateInfo>(VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO);
  semaphore.pNext = &type;
  check(device_.vk.vkCreateSemaphore(device_.handle, &semaphore, nullptr, &timeline_), "vkCreateSemaphore");
  for (Slot& slot : slots_) {
    auto pool = structure<VkCommandPoolCreateInfo>(VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO);
    pool.flags = VK_COMMAND_POOL_CREATE_TRANSIENT_BIT;
    pool.queueFamilyIndex = device_.adapter.queue_family;
    check(device_.vk.vkCreateCommandPool(device_.handle, &pool, nullptr, &slot.pool), "vkCreateCommandPool");
    auto info = structure<VkCommandBufferAllocateInfo>(VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO);
    info.commandPool = slot.pool;
    info.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
    info.commandBufferCount = 1;
    check(device_.vk.vkAllocateCommandBuffers(device_.handle, &info, &slot.buffer), "vkAllocateCommandBuffers");
    slot.list.entries.reserve(4 * kBatchDispatches);
  }
}

/// The next command of the open batch; add() completes it.
QueueEntry& CommandQueue::begin(QueueEntry::Kind kind, std::string_view op) {
  device_.require_alive();
  if (!open_batch_) {
    std::size_t next = (current_ + 1) % slots_.size();
    Slot& slot = slots_[next];
    wait(slot.value);
    slot.list.clear();
    slot.order.clear();
    slot.by.clear();
    current_ = next;
    open_batch_ = true;
    bytes_ = 0;
  }
  QueueEntry& entry = open().list.entries.emplace_back();
  entry.kind = kind;
  std::memcpy(entry.op.data(), op.data(), std::min(op.size(), entry.op.size() - 1));
  if (timestamps_.active()) {
    open().by.resize(open().list.entries.size());
    open().by.back() = {profile::Labels::now()};
  }
  open().order.emplace_back();
  return entry;
}

/// Orders the newest command, and submits where the batch is full.
void CommandQueue::add(std::span<const Range> reads, std::span<const Range> writes) {
  // Submission order reaches over batches, so a barrier here also waits for what earlier batches hold. It stands where
  // all commands have one behind them, too: those before the setting changed have none.
  if (!running_.empty()) wait_for_foreign(reads, writes);
  Slot& slot = open();
  Order& order = slot.order.back();
  order.before = hazards_.access(slot.list.entries.back().stage(), reads, writes);
  order.behind = barriers_everywhere();
  if (order.before) ++stats_.barriers;
  if (order.behind) ++stats_.barriers;
  bytes_ += touched(reads, writes);
  const std::size_t commands = slot.list.entries.size();
  if (commands < kBatchDispatches && bytes_ < kBatchBytes) return;
  if (commands < kGrowth * kBatchDispatches && bytes_ < kGrowth * kBatchBytes && !timestamps_.active() && is_busy())
    return;
  // A submit waits for the pipelines of its batch; more is queued meanwhile, so that those of a whole step are built
  // side by side. A profile has timestamps for batches of the usual size.
  if (!pipelines_.building() || timestamps_.active() || commands >= kLargestBatch) flush();
}

/// Whether the GPU has yet to finish the two batches submitted last.
bool CommandQueue::is_busy() { return submitted_ > 1 && !passed(submitted_ - 1); }

void CommandQueue::dispatch(const Dispatch& d, Pipeline& pipeline) {
  QueueEntry& command = begin(QueueEntry::Kind::dispatch, d.op);
  command.pipeline = &pipeline;
  command.groups = d.groups;
  open().list.push(command, d.arguments.bytes());
  ++stats_.dispatches;
  add(d.arguments.reads(), d.arguments.writes());
}

void CommandQueue::upload(const Dispatch& d, Pipeline& pipeline) {
  dispatch(d, pipeline);
  --stats_.dispatches;
}

void CommandQueue::launch(const CubinDispatch& d, VkCuFunctionNVX function) {
  QueueEntry& command = begin(QueueEntry::Kind::cubin, d.op);
  command.cubin = {function, d.groups, d.threads, d.shared_bytes};
  open().list.push(command, d.arguments.bytes());
  ++stats_.dispatches;
  add(d.arguments.reads(), d.arguments.writes());
}

// A staging buffer belongs to no tensor: its range is empty, and the staging code keeps its pieces apart in time.
void CommandQueue::copy(std::string_view op, const BufferSpan& from, const BufferSpan& to) {
  QueueEntry& command = begin(QueueEntry::Kind::copy, op);
  command.source = from;
  command.target = to;
  add({&from.range, 1}, {&to.range, 1});
}

void CommandQueue::fill(const BufferSpan& to, std::uint32_t word) {
  QueueEntry& command = begin(QueueEntry::Kind::fill, "fill");
  command.target = to;
  command.word = word;
  add({}, {&to.range, 1});
}

void CommandQueue::update(const BufferSpan& to, std::span<const std::byte> bytes) {
  QueueEntry& command = begin(QueueEntry::Kind::update, "update");
  command.target = to;
  open().list.push(command, bytes);
  add({}, {&to.range, 1});
}

void CommandQueue::make_host_visible() {
  begin(QueueEntry::Kind::make_host_visible, "download");
  for_host_ = true;
}

/// The open batch into its command buffer. @param expose work of the host follows it
void CommandQueue::encode_open(bool expose) {
  Slot& slot = open();
  if (VkResult r = device_.vk.vkResetCommandPool(device_.handle, slot.pool, 0)) fail(r, "vkResetCommandPool");
  auto info = structure<VkCommandBufferBeginInfo>(VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO);
  info.flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT;
  if (VkResult r = device_.vk.vkBeginCommandBuffer(slot.buffer, &info)) fail(r, "vkBeginCommandBuffer");
  slot.timed.reset(timestamps_, slot.buffer, kBatchDispatches + 1);
  if (std::exchange(from_host_, false) || awaited_[static_cast<std::size_t>(ForeignPlace::host)] > 0)
    take_from_host(device_.vk, slot.buffer);
  VkPipeline bound = VK_NULL_HANDLE;
  for (std::size_t i = 0; i < slot.list.entries.size(); ++i) {
    const QueueEntry& c = slot.list.entries[i];
    if (const Barrier& b = slot.order[i].before) {
      pipeline_barrier(stages_of(b.before), writes_of(b.before), stages_of(b.behind), accesses_of(b.behind));
    }
    if (c.kind == QueueEntry::Kind::make_host_visible || c.kind == QueueEntry::Kind::mark) {
      if (c.kind == QueueEntry::Kind::make_host_visible) slot.timed.barrier(slot.buffer);
      encode(device_.vk, slot.buffer, pipelines_.layout(), slot.list.pushes, c, bound);
      continue;
    }
    if (i < slot.by.size()) {
      slot.timed.begin(slot.buffer, c.op.data(), slot.by[i], c.stage());
    } else {
      slot.timed.begin(slot.buffer, c.op.data(), c.stage());
    }
    encode(device_.vk, slot.buffer, pipelines_.layout(), slot.list.pushes, c, bound);
    slot.timed.end(slot.buffer);
    if (slot.order[i].behind) {
      pipeline_barrier(VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, VK_ACCESS_MEMORY_WRITE_BIT,
                       VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, VK_ACCESS_MEMORY_READ_BIT | VK_ACCESS_MEMORY_WRITE_BIT);
    }
  }
  slot.timed.finish(slot.buffer);
  if (expose) expose_to_host(device_.vk, slot.buffer);
  if (index_errors_.in_use()) expose_kernel_writes(device_.vk, slot.buffer);
  if (VkResult r = device_.vk.vkEndCommandBuffer(slot.buffer)) fail(r, "vkEndCommandBuffer");
}

void CommandQueue::pipeline_barrier(VkPipelineStageFlags before, VkAccessFlags written, VkPipelineStageFlags behind,
                                    VkAccessFlags touched) {
  auto memory = structure<VkMemoryBarrier>(VK_STRUCTURE_TYPE_MEMORY_BARRIER);
  memory.srcAccessMask = written;
  memory.dstAccessMask = touched;
  open().timed.barrier(open().buffer);
  device_.vk.vkCmdPipelineBarrier(open().buffer, before, behind, 0, 1, &memory, 0, nullptr, 0, nullptr);
}

std::uint64_t CommandQueue::execute(std::span<const GraphPiece> graph, std::uint64_t dispatches,
                                    std::uint64_t barriers) {
  begin(QueueEntry::Kind::mark, "captured step");
  wait_for_all_foreign();
  hazards_.fence();  // first: foreign work that fails is reported when all is submitted
  submit(graph);
  stats_.dispatches += dispatches;
  stats_.barriers += barriers;
  return submitted_;
}

/// Another batch of the next submit.
void CommandQueue::add_batch(std::span<const VkCommandBuffer> commands,
                             const std::array<std::uint64_t, gpu::kForeignPlaces>& waits,
                             std::span<const gpu::ForeignCall> behind) {
  Batch& batch = batches_.emplace_back();
  batch.first = submitting_.size();
  batch.count = commands.size();
  submitting_.insert(submitting_.end(), commands.begin(), commands.end());
  const std::uint64_t mark = submitted_ + batches_.size();
  const auto signal = [&](VkSemaphore semaphore) {
    batch.signals[batch.signal_count] = semaphore;
    batch.raised[batch.signal_count++] = mark;
  };
  signal(timeline_);
  for (std::size_t place = 0; place < gpu::kForeignPlaces; ++place) {
    const bool begins = std::any_of(behind.begin(), behind.end(), [&](const gpu::ForeignCall& call) {
      return static_cast<std::size_t>(call.work->place()) == place;
    });
    if (begins) {
      signal(foreign_[place]->to());
      foreign_mark_[place] = mark;
    }
    if (waits[place] == 0) continue;
    batch.waits[batch.wait_count] = foreign_[place]->from();
    batch.stages[batch.wait_count] = VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;
    batch.awaited[batch.wait_count++] = waits[place];
  }
}

void CommandQueue::submit(std::span<const GraphPiece> graph) {
  if (!open_batch_) return;
  profile::Scope scope("submit");
  // Whatever happens below, the next command opens a new batch.
  open_batch_ = false;
  Slot& slot = open();
  encode_open(begins_with_host_work(graph));
  from_host_ = ends_with_host_work(graph);
  std::array<std::uint64_t, gpu::kForeignPlaces> before{};
  for (std::size_t place = 0; place < gpu::kForeignPlaces; ++place)
    if (foreign_[place]) before[place] = foreign_[place]->queued();
  submitting_.clear();
  batches_.clear();
  // The graph's first commands go with the open ones, unless the host waits for what those bring it.
  const bool apart = std::exchange(for_host_, false) || graph.empty();
  add_batch({&slot.buffer, 1}, std::exchange(awaited_, {}),
            apart ? std::span<const gpu::ForeignCall>() : graph[0].behind);
  if (!apart) {
    submitting_.insert(submitting_.end(), graph[0].commands.begin(), graph[0].commands.end());
    batches_[0].count += graph[0].commands.size();
  }
  for (const GraphPiece& piece : graph.subspan(apart ? 0 : 1)) {
    std::array<std::uint64_t, gpu::kForeignPlaces> waits{};
    for (std::size_t place = 0; place < gpu::kForeignPlaces; ++place)
      if (piece.waits[place] > 0) waits[place] = before[place] + piece.waits[place];
    add_batch(piece.commands, waits, piece.behind);
  }
  submits_.clear();
  for (Batch& batch : batches_) {
    batch.timeline = structure<VkTimelineSemaphoreSubmitInfo>(VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO);
    batch.timeline.signalSemaphoreValueCount = batch.signal_count;
    batch.timeline.pSignalSemaphoreValues = batch.raised.data();
    batch.timeline.waitSemaphoreValueCount = batch.wait_count;
    batch.timeline.pWaitSemaphoreValues = batch.awaited.data();
    VkSubmitInfo& info = submits_.emplace_back(structure<VkSubmitInfo>(VK_STRUCTURE_TYPE_SUBMIT_INFO));
    info.pNext = &batch.timeline;
    info.signalSemaphoreCount = batch.signal_count;
    info.pSignalSemaphores = batch.signals.data();
    info.waitSemaphoreCount = batch.wait_count;
    info.pWaitSemaphores = batch.waits.data();
    info.pWaitDstStageMask = batch.stages.data();
    info.commandBufferCount = static_cast<std::uint32_t>(batch.count);
    info.pCommandBuffers = submitting_.data() + batch.first;
  }
  const std::int64_t called = slot.timed.timing() ? profile::detail::now_ns() : 0;
  auto result = static_cast<VkResult>(injected_failure.exchange(0));
  // NVIDIA's driver forgets what caches hold of the host's memory where a call begins, but not at barriers: 580.159
  // reads what the host wrote meanwhile only in a call of its own.
  const bool one_by_one =
      std::any_of(graph.begin(), graph.end(), [](const GraphPiece& piece) { return piece.begins_host_work(); });
  const std::size_t a_call = one_by_one ? 1 : submits_.size();
  for (std::size_t i = 0; i < submits_.size() && result == VK_SUCCESS; i += a_call)
    result = device_.vk.vkQueueSubmit(device_.queue, static_cast<std::uint32_t>(a_call), &submits_[i], VK_NULL_HANDLE);
  if (result != VK_SUCCESS) fail(result, "vkQueueSubmit");
  slot.value = submitted_ + 1;
  const std::uint64_t first = submitted_ + (apart ? 2 : 1);
  submitted_ += submits_.size();
  stats_.submits += one_by_one ? submits_.size() : 1;
  slot.timed.submitted(called);
  run_foreign(graph, first);
}

void CommandQueue::finish() {
  if (!running_.empty()) {
    begin(QueueEntry::Kind::mark, "foreign work");
    wait_for_all_foreign();
  }
  flush();
  wait(submitted_);
}

void CommandQueue::wait(std::uint64_t mark) {
  if (mark <= finished_) return;
  device_.require_alive();
  if (mark > submitted_) flush();
  // The mark of a batch that failed to reach the GPU never comes.
  mark = std::min(mark, submitted_);
  if (mark <= finished_) return;
  profile::Scope scope("wait for the GPU", profile::Category::wait);
  auto info = structure<VkSemaphoreWaitInfo>(VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO);
  info.semaphoreCount = 1;
  info.pSemaphores = &timeline_;
  info.pValues = &mark;
  if (VkResult r = device_.vk.vkWaitSemaphores(device_.handle, &info, UINT64_MAX)) fail(r, "vkWaitSemaphores");
  if (finished_ == 0) leave_at_exit();
  finished_ = mark;
}

bool CommandQueue::passed(std::uint64_t mark) {
  if (mark > finished_ && mark <= submitted_) {
    std::uint64_t value = 0;
    if (VkResult r = device_.vk.vkGetSemaphoreCounterValue(device_.handle, timeline_, &value)) {
      fail(r, "vkGetSemaphoreCounterValue");
    }
    if (value != 0 && finished_ == 0) leave_at_exit();
    finished_ = std::max(finished_, value);
  }
  return mark <= finished_;
}

void CommandQueue::leave() {
  open_batch_ = false;
  if (submitted_ <= finished_) return;
  constexpr std::uint64_t patience_ns = 5'000'000'000;
  auto info = structure<VkSemaphoreWaitInfo>(VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO);
  info.semaphoreCount = 1;
  info.pSemaphores = &timeline_;
  info.pValues = &submitted_;
  device_.vk.vkWaitSemaphores(device_.handle, &info, patience_ns);
}

void CommandQueue::fail(VkResult result, const char* call) {
  open_batch_ = false;
  std::string ops = unfinished_ops();
  std::string name = device_.device.str();
  switch (result) {
    case VK_ERROR_DEVICE_LOST:
      device_.lost = fmt::format(
          "{} ({}) was lost, everything on it is gone: {} failed, last submitted: {}; restart the program, and try "
          "ETNA_VALIDATION=1 to find the cause",
          name, device_.adapter.info.name, call, ops);
      throw DeviceLost(device_.lost);
    case VK_ERROR_OUT_OF_HOST_MEMORY:
    case VK_ERROR_OUT_OF_DEVICE_MEMORY:
      throw OutOfMemory(fmt::format("{}: {} ran out of {} memory; work that did not reach the GPU: {}", name, call,
                                    result == VK_ERROR_OUT_OF_HOST_MEMORY ? "host" : "device", ops));
    default:
      throw DeviceError(fmt::format("{}: {} failed with {}; last submitted: {}", name, call, str(result), ops));
  }
}

/// "matmul x12, softmax": the open batch and those in flight, in order, repeats counted, the last sixteen.
std::string CommandQueue::unfinished_ops() const {
  std::vector<std::pair<std::string_view, int>> runs;
  for (std::size_t i = 1; i <= slots_.size(); ++i) {
    const Slot& slot = slots_[(current_ + i) % slots_.size()];
    if (i < slots_.size() && slot.value <= finished_) continue;
    for (const QueueEntry& c : slot.list.entries) {
      std::string_view name = c.op.data();
      if (!runs.empty() && runs.back().first == name) {
        ++runs.back().second;
      } else {
        runs.emplace_back(name, 1);
      }
    }
  }
  std::string text;
  for (std::size_t i = runs.size() > 16 ? runs.size() - 16 : 0; i < runs.size(); ++i) {
    text += (text.empty() ? "" : ", ") + std::string(runs[i].first);
    if (runs[i].second > 1) text += fmt::format(" x{}", runs[i].second);
  }
  return text.empty() ? "nothing" : text;
}

}  // namespace etna::vulkan
