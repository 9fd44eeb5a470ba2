#include <etna/device/vulkan/baked_commands.h>

#include <algorithm>

#include <etna/device/error.h>

namespace etna::vulkan {
namespace {

/// Of one command buffer. Drivers with a watchdog see submits of bounded length.
constexpr std::size_t kCommandsABuffer = 256;

}  // namespace

BakedCommands::BakedCommands(Context& context, CommandList list, std::vector<StoragePtr> storages, StoragePtr state,
                           RecordingFigures figures)
    : context_(context),
      list_(std::move(list)),
      storages_(std::move(storages)),
      state_(std::move(state)),
      figures_(figures) {
  std::lock_guard lock(context_.mutex);
  context_.logical.require_alive();
  const VolkDeviceTable& vk = context_.logical.vk;
  VkDevice device = context_.logical.handle;
  for (const Command& c : list_.commands) {
    if (c.group >= stages_.size()) stages_.resize(c.group + 1, 0);
    stages_[c.group] |= c.stage();
  }
  auto pool = structure<VkCommandPoolCreateInfo>(VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO);
  pool.queueFamilyIndex = context_.logical.adapter.queue_family;
  check(vk.vkCreateCommandPool(device, &pool, nullptr, &pool_), "vkCreateCommandPool");

  const std::size_t count = (list_.commands.size() + kCommandsABuffer - 1) / kCommandsABuffer;
  buffers_.resize(count);
  if (count == 0) return;
  auto info = structure<VkCommandBufferAllocateInfo>(VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO);
  info.commandPool = pool_;
  info.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
  info.commandBufferCount = static_cast<std::uint32_t>(count);
  VkResult result = vk.vkAllocateCommandBuffers(device, &info, buffers_.data());
  for (std::size_t i = 0; result == VK_SUCCESS && i < count; ++i) {
    auto begin = structure<VkCommandBufferBeginInfo>(VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO);
    // A run may be queued while the one before is still at work.
    begin.flags = VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT;
    result = vk.vkBeginCommandBuffer(buffers_[i], &begin);
    if (result != VK_SUCCESS) break;
    encode(buffers_[i], i * kCommandsABuffer, std::min((i + 1) * kCommandsABuffer, list_.commands.size()));
    result = vk.vkEndCommandBuffer(buffers_[i]);
  }
  if (result != VK_SUCCESS) {
    vk.vkDestroyCommandPool(device, pool_, nullptr);
    check(result, "vkEndCommandBuffer");
  }
}

BakedCommands::~BakedCommands() {
  std::lock_guard lock(context_.mutex);
  try {
    if (context_.logical.lost.empty()) context_.recorder.wait(last_run_);
  } catch (const Error&) {
    // Lost just now: nothing runs any more.
  }
  context_.logical.vk.vkDestroyCommandPool(context_.logical.handle, pool_, nullptr);
}

void BakedCommands::run(std::span<const std::byte> state) {
  std::lock_guard lock(context_.mutex);
  if (!state.empty()) {
    context_.recorder.update(context_.segments.find(state_->address(), state.size()), state.data());
  }
  last_run_ = context_.recorder.execute(buffers_, figures_.dispatches, figures_.barriers);
}

void BakedCommands::encode(VkCommandBuffer commands, std::size_t begin, std::size_t end) {
  VkPipeline bound = VK_NULL_HANDLE;
  if (begin == 0) barrier(commands, kCompute | kTransfer, kCompute | kTransfer);
  const bool everywhere = barriers_everywhere();
  for (std::size_t i = begin; i < end; ++i) {
    const Command& c = list_.commands[i];
    // Barriers chain: each waits for the group before, which waited for the one before that.
    if (i > 0 && c.group != list_.commands[i - 1].group) {
      barrier(commands, stages_[c.group - 1], stages_[c.group]);
    } else if (everywhere) {
      barrier(commands, kCompute | kTransfer, kCompute | kTransfer);
    }
    encode(commands, c, bound);
  }
}

void BakedCommands::encode(VkCommandBuffer commands, const Command& c, VkPipeline& bound) {
  const VolkDeviceTable& vk = context_.logical.vk;
  switch (c.kind) {
    case Command::Kind::dispatch:
      if (bound != c.pipeline) {
        vk.vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, c.pipeline);
        bound = c.pipeline;
      }
      if (c.push_bytes > 0) {
        vk.vkCmdPushConstants(commands, context_.pipelines.layout(), VK_SHADER_STAGE_COMPUTE_BIT, 0, c.push_bytes,
                              list_.pushes.data() + c.push_begin);
      }
      vk.vkCmdDispatch(commands, c.groups[0], c.groups[1], c.groups[2]);
      break;
    case Command::Kind::copy: {
      const Range from = list_.reads(c)[0], to = list_.writes(c)[0];
      BufferSpan source = context_.segments.find(from.address, from.bytes),
                 target = context_.segments.find(to.address, to.bytes);
      VkBufferCopy region{source.offset, target.offset, to.bytes};
      vk.vkCmdCopyBuffer(commands, source.buffer, target.buffer, 1, &region);
      break;
    }
    case Command::Kind::fill: {
      const Range to = list_.writes(c)[0];
      BufferSpan target = context_.segments.find(to.address, to.bytes);
      vk.vkCmdFillBuffer(commands, target.buffer, target.offset, to.bytes, c.word);
      break;
    }
  }
}

void BakedCommands::barrier(VkCommandBuffer commands, unsigned before, unsigned behind) {
  auto memory = structure<VkMemoryBarrier>(VK_STRUCTURE_TYPE_MEMORY_BARRIER);
  memory.srcAccessMask = writes_of(before);
  memory.dstAccessMask = accesses_of(behind);
  context_.logical.vk.vkCmdPipelineBarrier(commands, stages_of(before), stages_of(behind), 0, 1, &memory, 0, nullptr, 0,
                                           nullptr);
}

}  // namespace etna::vulkan
