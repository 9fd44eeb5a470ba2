#pragma once

#include <array>
#include <deque>
#include <vector>

#include <etna/device/vulkan/commands/command_list.h>
#include <etna/device/vulkan/commands/context.h>
#include <etna/device/vulkan/commands/timestamps.h>
#include <etna/device/vulkan/graph/recording.h>

namespace etna::vulkan {

/// A recording's command buffers, and the memory planned for it.
class CompiledCommands final : public Executable {
 public:
  /// @param storages kept alive as long as this object
  /// @param numbers the block that run() writes; may be null
  CompiledCommands(Context& context, CommandList list, std::vector<StoragePtr> storages, StoragePtr numbers,
                   GraphFigures figures);
  ~CompiledCommands() override;

  void run(std::span<const std::byte> numbers) override;
  const GraphFigures& figures() const override { return figures_; }

 private:
  /// The commands, a few hundred per buffer; with timestamps, if requested.
  struct Buffers {
    std::vector<VkCommandBuffer> commands;
    std::deque<TimedCommands> timed;  ///< one per buffer
    std::uint32_t profile = 0;        ///< the profile that the timestamps belong to
    std::uint64_t last_run = 0;       ///< the recorder's mark
  };
  void encode_all(Buffers& buffers, Timestamps* timestamps);
  void encode(VkCommandBuffer commands, std::size_t begin, std::size_t end, TimedCommands* timed);
  BufferSpan buffer_of(const Range& range) const;
  void barrier(VkCommandBuffer commands, unsigned before, unsigned behind);
  void run_timed();

  Context& context_;
  CommandList list_;
  std::vector<StoragePtr> storages_;
  StoragePtr numbers_;
  GraphFigures figures_;
  std::vector<unsigned> stages_;  ///< per group
  VkCommandPool pool_ = VK_NULL_HANDLE;
  Buffers plain_;
  std::array<Buffers, 3>
      timed_;  ///< used in turn while a profile is taken: results are read before a buffer runs again
  std::size_t turn_ = 0;
};

}  // namespace etna::vulkan
