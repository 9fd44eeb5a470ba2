#include <etna/device/internal/vulkan/executable/command_buffers.h>

#include <algorithm>
#include <utility>

#include <fmt/format.h>

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
    if (c.foreign() == nullptr) stages_[c.group] |= c.stage();
  }
  divide();
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
  } else if (c.foreign() != nullptr) {
    made.kind = QueueEntry::Kind::mark;
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

/// Divides the commands where foreign work begins, and where it has to be done: before the first command that touches
/// its memory, which planned storages may share by now.
void CommandBuffers::divide() {
  const graph::CommandList& list = graph_.list();
  struct Started {
    std::size_t place;
    std::uint64_t number;  ///< on its queue, from 1
    const graph::Command* command;
  };
  std::vector<Started> started;
  std::array<std::uint64_t, gpu::kForeignPlaces> counts{}, awaited{};
  parts_.emplace_back();
  const auto begin_part = [&](std::size_t at) {
    if (parts_.back().end == parts_.back().begin && parts_.back().piece.behind.empty()) {
      parts_.back().begin = parts_.back().end = at;
      return;
    }
    Part& part = parts_.emplace_back();
    part.begin = part.end = at;
  };
  for (std::size_t i = 0; i < list.commands.size(); ++i) {
    const graph::Command& c = list.commands[i];
    std::array<std::uint64_t, gpu::kForeignPlaces> needed{};
    std::erase_if(started, [&](const Started& s) {
      if (c.foreign() != nullptr && static_cast<std::size_t>(c.foreign()->work->place()) == s.place) return false;
      if (!graph::conflict(list.accesses(c), list.accesses(*s.command))) return false;
      needed[s.place] = std::max(needed[s.place], s.number);
      return true;
    });
    const bool waits = std::any_of(needed.begin(), needed.end(), [](std::uint64_t n) { return n > 0; });
    if (waits) {
      begin_part(i);
      for (std::size_t place = 0; place < needed.size(); ++place) {
        awaited[place] = std::max(awaited[place], needed[place]);
        parts_.back().piece.waits[place] = awaited[place];
      }
    }
    if (const graph::ForeignCommand* foreign = c.foreign()) {
      std::string why;
      if (context_.queue.foreign_queue(foreign->work->place(), why) == nullptr)
        throw DeviceError(fmt::format("{}: {}", c.op.data(), why));
      const auto place = static_cast<std::size_t>(foreign->work->place());
      parts_.back().piece.behind.push_back({c.op.data(), foreign->work, list.reads(c), list.writes(c)});
      started.push_back({place, ++counts[place], &c});
    } else {
      if (!parts_.back().piece.behind.empty()) begin_part(i);
      parts_.back().end = i + 1;
    }
  }
  if (counts != awaited) {
    begin_part(list.commands.size());
    parts_.back().piece.waits = counts;
  }
  std::array<std::uint64_t, gpu::kForeignPlaces> numbers{};
  for (Part& part : parts_) {
    for (gpu::ForeignCall& call : part.piece.behind) {
      const auto place = static_cast<std::size_t>(call.work->place());
      const std::uint64_t number = ++numbers[place];
      call.awaited =
          std::any_of(parts_.begin(), parts_.end(), [&](const Part& p) { return p.piece.waits[place] == number; });
    }
    part.first_buffer = ranges_.size();
    for (std::size_t at = part.begin; at < part.end; at += kCommandsABuffer)
      ranges_.emplace_back(at, std::min(at + kCommandsABuffer, part.end));
    part.buffers = ranges_.size() - part.first_buffer;
  }
  note_host_work();
}

/// Finds the parts that need barriers against work of the host. What is before the first part that has commands, and
/// behind the last, is the queue's.
void CommandBuffers::note_host_work() {
  constexpr auto kHost = static_cast<std::size_t>(ForeignPlace::host);
  const auto begins = [](const Part& part) { return part.piece.begins_host_work(); };
  if (std::none_of(parts_.begin(), parts_.end(), begins)) return;
  Part* before = nullptr;
  bool waited = false;
  for (Part& part : parts_) {
    waited = waited || part.piece.waits[kHost] > 0;
    if (part.buffers > 0) {
      part.from_host = std::exchange(waited, false);
      before = &part;
    }
    if (before != nullptr) before->to_host = before->to_host || begins(part);
  }
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
    plain_.last_run = context_.queue.execute(pieces_of(plain_), graph_.report().dispatches, graph_.report().barriers);
  }
}

std::span<const GraphPiece> CommandBuffers::pieces_of(const Buffers& buffers) {
  pieces_.resize(parts_.size());
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    if (pieces_[i].commands.empty()) pieces_[i] = parts_[i].piece;
    pieces_[i].commands = std::span(buffers.commands).subspan(parts_[i].first_buffer, parts_[i].buffers);
  }
  return pieces_;
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
  buffers.last_run = context_.queue.execute(pieces_of(buffers), graph_.report().dispatches, graph_.report().barriers);
  for (TimedCommands& timed : buffers.timed) timed.submitted(now);
}

/// Encodes the buffers anew; the device has finished with them.
void CommandBuffers::encode_all(Buffers& buffers, Timestamps* timestamps) {
  const VolkDeviceTable& vk = context_.logical.vk;
  const std::size_t count = ranges_.size();
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
    const auto [first, last] = ranges_[i];
    auto begin = structure<VkCommandBufferBeginInfo>(VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO);
    // A run may be queued while the previous one is still running; buffers with timestamps wait for each other.
    if (timestamps == nullptr) begin.flags = VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT;
    check(vk.vkBeginCommandBuffer(commands, &begin), "vkBeginCommandBuffer");
    TimedCommands* timed = timestamps != nullptr ? &buffers.timed[i] : nullptr;
    if (timed != nullptr) timed->reset(*timestamps, commands, last - first);
    encode(commands, i, timed);
    check(vk.vkEndCommandBuffer(commands), "vkEndCommandBuffer");
  }
}

void CommandBuffers::encode(VkCommandBuffer commands, std::size_t buffer, TimedCommands* timed) {
  const auto [begin, end] = ranges_[buffer];
  const Part& part = *std::find_if(parts_.begin(), parts_.end(), [&](const Part& p) {
    return buffer >= p.first_buffer && buffer < p.first_buffer + p.buffers;
  });
  if (part.from_host && buffer == part.first_buffer) take_from_host(context_.logical.vk, commands);
  VkPipeline bound = VK_NULL_HANDLE;
  const std::vector<graph::Command>& list = graph_.list().commands;
  // Foreign commands have no place in a command buffer; they come before the others of their group.
  std::size_t previous = begin;
  while (previous > 0 && list[previous - 1].foreign() != nullptr) --previous;
  const graph::Command* before = previous > 0 ? &list[previous - 1] : nullptr;
  if (before == nullptr) barrier(commands, kCompute | kTransfer, kCompute | kTransfer);
  const bool everywhere = barriers_everywhere();
  for (std::size_t i = begin; i < end; ++i) {
    const graph::Command& c = list[i];
    // Barriers chain: each waits for the previous group, which waited for the one before it.
    if (before != nullptr && c.group != before->group) {
      if (timed != nullptr) timed->barrier(commands);
      barrier(commands, stages_[before->group], stages_[c.group]);
    } else if (everywhere) {
      if (timed != nullptr) timed->barrier(commands);
      barrier(commands, kCompute | kTransfer, kCompute | kTransfer);
    }
    before = &c;
    if (timed != nullptr) timed->begin(commands, c.op.data(), c.labels, c.stage());
    vulkan::encode(context_.logical.vk, commands, context_.pipelines.layout(), graph_.list().bytes, entries_[i], bound);
    if (timed != nullptr) timed->end(commands);
  }
  if (timed != nullptr) timed->finish(commands);
  if (everywhere) barrier(commands, kCompute | kTransfer, kCompute | kTransfer);
  if (part.to_host && buffer + 1 == part.first_buffer + part.buffers) expose_to_host(context_.logical.vk, commands);
  if (buffer + 1 == ranges_.size() && context_.index_errors.in_use())
    expose_kernel_writes(context_.logical.vk, commands);
}

void CommandBuffers::barrier(VkCommandBuffer commands, unsigned before, unsigned behind) {
  auto memory = structure<VkMemoryBarrier>(VK_STRUCTURE_TYPE_MEMORY_BARRIER);
  memory.srcAccessMask = writes_of(before);
  memory.dstAccessMask = accesses_of(behind);
  context_.logical.vk.vkCmdPipelineBarrier(commands, stages_of(before), stages_of(behind), 0, 1, &memory, 0, nullptr, 0,
                                           nullptr);
}

}  // namespace etna::vulkan
