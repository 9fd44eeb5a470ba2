#include <etna/device/internal/vulkan/commands/queue_entries.h>

#include <algorithm>

namespace etna::vulkan {

void encode(const VolkDeviceTable& vk, VkCommandBuffer commands, VkPipelineLayout layout,
            std::span<const std::byte> pushes, const QueueEntry& c, VkPipeline& bound) {
  const std::span<const std::byte> push = pushes.subspan(c.push_begin, c.push_bytes);
  switch (c.kind) {
    case QueueEntry::Kind::dispatch: {
      const VkPipeline pipeline = c.pipeline->get();
      if (bound != pipeline) vk.vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline);
      bound = pipeline;
      if (!push.empty()) {
        vk.vkCmdPushConstants(commands, layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, c.push_bytes, push.data());
      }
      vk.vkCmdDispatch(commands, c.groups[0], c.groups[1], c.groups[2]);
      break;
    }
    case QueueEntry::Kind::cubin:
      launch(vk, commands, c.cubin, push);
      bound = VK_NULL_HANDLE;  // no pipeline, as far as the extension says
      break;
    case QueueEntry::Kind::copy: {
      const VkBufferCopy region{c.source.offset, c.target.offset, std::max(c.source.range.bytes, c.target.range.bytes)};
      vk.vkCmdCopyBuffer(commands, c.source.buffer, c.target.buffer, 1, &region);
      break;
    }
    case QueueEntry::Kind::fill:
      vk.vkCmdFillBuffer(commands, c.target.buffer, c.target.offset, c.target.range.bytes, c.word);
      break;
    case QueueEntry::Kind::update:
      vk.vkCmdUpdateBuffer(commands, c.target.buffer, c.target.offset, push.size(), push.data());
      break;
    case QueueEntry::Kind::mark:
      break;
    case QueueEntry::Kind::make_host_visible: {
      auto memory = structure<VkMemoryBarrier>(VK_STRUCTURE_TYPE_MEMORY_BARRIER);
      memory.srcAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT;
      memory.dstAccessMask = VK_ACCESS_HOST_READ_BIT;
      vk.vkCmdPipelineBarrier(commands, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &memory, 0,
                              nullptr, 0, nullptr);
      break;
    }
  }
}

}  // namespace etna::vulkan
