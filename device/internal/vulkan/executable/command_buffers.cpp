#include <etna/device/internal/vulkan/executable/command_buffers.h>

#include <algorithm>

#include <etna/device/error.h>
#include <etna/device/internal/vulkan/api/diagnostics.h>
#include <etna/device/internal/vulkan/executable/fusion/glsl.h>
#include <etna/device/internal/vulkan/executable/fusion/glsl_writer.h>

namespace etna::vulkan {
namespace {

/// Commands per command buffer. Bounds the length of a submit, for drivers with a watchdog.
constexpr std::size_t kCommandsABuffer = 256;
/// Below what drivers allocate at once (slightly less than 4 GiB), and a size that the allocator does not round up.
constexpr std::size_t kLargestChunk = std::size_t{7} << 29;

}  // namespace

std::unique_ptr<Executable> compile(Graph& graph) {
  Context& context = Context::of(graph.device());
  fusion::GlslWriter kernels(context);
  graph.plan({.largest_chunk = std::min<std::size_t>(kLargestChunk, context.logical.adapter.max_allocation),
              .kernels = fusion::enabled() ? &kernels : nullptr});
  return std::make_unique<CommandBuffers>(context, graph);
}

CommandBuffers::CommandBuffers(Context& context, const Graph& graph) : context_(context), graph_(graph) {
  std::lock_guard lock(context_.mutex);
  context_.logical.require_alive();
  const VolkDeviceTable& vk = context_.logical.vk;
  VkDevice device = context_.logical.handle;
  entries_.reserve(graph.list().commands.size());
  for (const graph::Command& c : graph.list().commands) {
    entries_.push_back(resolved(c));
    if (c.group >= stages_.size()) stages_.resize(c.group + 1, 0);
    stages_[c.group] |= c.stage();
  }
  auto pool = structure<VkCommandPoolCreateInfo>(VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO);
  pool.queueFamilyIndex = context_.logical.adapter.queue_family;
  pool.flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT;
  check(vk.vkCreateCommandPool(device, &pool, nullptr, &pool_), "vkCreateCommandPool");

  try {
    encode_all(plain_, nullptr);
  } catch (...) {
    vk.vkDestroyCommandPool(device, pool_, nullptr);
    throw;
  }
}

/// The command with its pipeline, which the capture has begun to build, or with the buffers of its ranges.
QueueEntry CommandBuffers::resolved(const graph::Command& c) const {
  const graph::CommandList& list = graph_.list();
  QueueEntry made;
  made.op = c.op;
  made.push_begin = c.arguments.begin;
  made.push_bytes = c.arguments.count;
  if (const auto* dispatch = std::get_if<graph::DispatchCommand>(&c.work)) {
    made.pipeline = &context_.pipeline(dispatch->shader, list.spec(*dispatch), c.op.data());
    made.groups = dispatch->groups;
  } else if (const auto* launch = std::get_if<graph::CubinCommand>(&c.work)) {
    made.kind = QueueEntry::Kind::cubin;
    made.cubin = {context_.cubins.get(*launch->kernel, c.op.data()), launch->groups, launch->threads,
                  launch->shared_bytes};
  } else if (const auto* fill = std::get_if<graph::FillCommand>(&c.work)) {
    made.kind = QueueEntry::Kind::fill;
    made.word = fill->word;
    made.target = buffer_of(list.writes(c)[0]);
  } else {
    made.kind = QueueEntry::Kind::copy;
    made.source = buffer_of(list.reads(c)[0]);
    made.target = buffer_of(list.writes(c)[0]);
  }
  return made;
}

BufferSpan CommandBuffers::buffer_of(const Range& range) const {
  return context_.segments.find(range.address, range.bytes);
}

CommandBuffers::~CommandBuffers() {
  std::lock_guard lock(context_.mutex);
  try {
    if (context_.logical.lost.empty()) {
      context_.queue.wait(plain_.last_run);
      for (const Buffers& buffers : timed_) context_.queue.wait(buffers.last_run);
    }
  } catch (const Error&) {
    // The device was lost just now: nothing runs any more.
  }
  context_.logical.vk.vkDestroyCommandPool(context_.logical.handle, pool_, nullptr);
}

void CommandBuffers::run(std::span<const std::byte> numbers) {
  std::lock_guard lock(context_.mutex);
  if (!numbers.empty()) {
    context_.staging.upload(numbers.data(), context_.segments.find(graph_.numbers()->address(), numbers.size()));
  }
  if (context_.queue.timestamps().active()) {
    run_timed();
  } else {
    plain_.last_run = context_.queue.execute(plain_.commands, graph_.report().dispatches, graph_.report().barriers);
  }
}

void CommandBuffers::run_timed() {
  Buffers& buffers = timed_[turn_++ % timed_.size()];
  context_.queue.wait(buffers.last_run);
  for (TimedCommands& timed : buffers.timed) timed.collect();
  const std::uint32_t profile = profile::detail::session();
  if (buffers.profile != profile) {
    encode_all(buffers, &context_.queue.timestamps());
    buffers.profile = profile;
  }
  const std::int64_t now = profile::detail::now_ns();
  buffers.last_run = context_.queue.execute(buffers.commands, graph_.report().dispatches, graph_.report().barriers);
  for (TimedCommands& timed : buffers.timed) timed.submitted(now);
}

/// Encodes the buffers anew; the device has finished with them.
void CommandBuffers::encode_all(Buffers& buffers, Timestamps* timestamps) {
  const VolkDeviceTable& vk = context_.logical.vk;
  const std::size_t count = (entries_.size() + kCommandsABuffer - 1) / kCommandsABuffer;
  if (count == 0) return;
  if (buffers.commands.empty()) {
    auto info = structure<VkCommandBufferAllocateInfo>(VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO);
    info.commandPool = pool_;
    info.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
    info.commandBufferCount = static_cast<std::uint32_t>(count);
    std::vector<VkCommandBuffer> made(count);
    check(vk.vkAllocateCommandBuffers(context_.logical.handle, &info, made.data()), "vkAllocateCommandBuffers");
    buffers.commands = std::move(made);
    if (timestamps != nullptr) buffers.timed.resize(count);
  }
  for (std::size_t i = 0; i < count; ++i) {
    VkCommandBuffer commands = buffers.commands[i];
    const std::size_t first = i * kCommandsABuffer, last = std::min(first + kCommandsABuffer, entries_.size());
    auto begin = structure<VkCommandBufferBeginInfo>(VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO);
    // A run may be queued while the previous one is still running; buffers with timestamps wait for each other.
    if (timestamps == nullptr) begin.flags = VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT;
    check(vk.vkBeginCommandBuffer(commands, &begin), "vkBeginCommandBuffer");
    TimedCommands* timed = timestamps != nullptr ? &buffers.timed[i] : nullptr;
    if (timed != nullptr) timed->reset(*timestamps, commands, last - first);
    encode(commands, first, last, timed);
    check(vk.vkEndCommandBuffer(commands), "vkEndCommandBuffer");
  }
}

void CommandBuffers::encode(VkCommandBuffer commands, std::size_t begin, std::size_t end, TimedCommands* timed) {
  VkPipeline bound = VK_NULL_HANDLE;
  if (begin == 0) barrier(commands, kCompute | kTransfer, kCompute | kTransfer);
  const bool everywhere = barriers_everywhere();
  for (std::size_t i = begin; i < end; ++i) {
    const graph::Command& c = graph_.list().commands[i];
    // Barriers chain: each waits for the previous group, which waited for the one before it.
    if (i > 0 && c.group != graph_.list().commands[i - 1].group) {
      if (timed != nullptr) timed->barrier(commands);
      barrier(commands, stages_[c.group - 1], stages_[c.group]);
    } else if (everywhere) {
      if (timed != nullptr) timed->barrier(commands);
      barrier(commands, kCompute | kTransfer, kCompute | kTransfer);
    }
    if (timed != nullptr) timed->begin(commands, c.op.data(), c.labels, c.stage());
    vulkan::encode(context_.logical.vk, commands, context_.pipelines.layout(), graph_.list().bytes, entries_[i], bound);
    if (timed != nullptr) timed->end(commands);
  }
  if (timed != nullptr) timed->finish(commands);
  if (everywhere) barrier(commands, kCompute | kTransfer, kCompute | kTransfer);
  if (end == entries_.size() && context_.index_errors.in_use()) expose_kernel_writes(context_.logical.vk, commands);
}

void CommandBuffers::barrier(VkCommandBuffer commands, unsigned before, unsigned behind) {
  auto memory = structure<VkMemoryBarrier>(VK_STRUCTURE_TYPE_MEMORY_BARRIER);
  memory.srcAccessMask = writes_of(before);
  memory.dstAccessMask = accesses_of(behind);
  context_.logical.vk.vkCmdPipelineBarrier(commands, stages_of(before), stages_of(behind), 0, 1, &memory, 0, nullptr, 0,
                                           nullptr);
}

}  // namespace etna::vulkan
