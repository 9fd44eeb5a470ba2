#pragma once

#include <array>
#include <deque>
#include <vector>

#include <etna/device/vulkan/commands/context.h>
#include <etna/device/vulkan/commands/timestamps.h>
#include <etna/device/vulkan/graph/recording.h>

namespace etna::vulkan {

/// One command of a program. Push constants (a cubin's parameters) and ranges lie in the program's pools.
struct Command {
  enum class Kind : std::uint8_t { dispatch, cubin, copy, fill };
  Kind kind = Kind::dispatch;
  std::array<char, 32> op{};
  VkPipeline pipeline = VK_NULL_HANDLE;
  std::array<std::uint32_t, 3> groups{};
  CubinLaunch cubin;
  std::uint32_t push_begin = 0, push_bytes = 0;
  std::uint32_t ranges_begin = 0, reads = 0, writes = 0;  ///< reads first
  std::uint32_t word = 0;                                 ///< of a fill
  std::uint32_t group = 0;
  profile::Labels labels;

  Stage stage() const { return kind == Kind::dispatch || kind == Kind::cubin ? kCompute : kTransfer; }
};

/// Commands in the order of their groups, with their operands.
struct CommandList {
  std::vector<Command> commands;
  std::vector<std::byte> pushes;
  std::vector<Range> ranges;

  std::span<const Range> reads(const Command& c) const { return {ranges.data() + c.ranges_begin, c.reads}; }
  std::span<const Range> writes(const Command& c) const { return {ranges.data() + c.ranges_begin + c.reads, c.writes}; }
};

/// A recording's command buffers, and the memory that was planned for it.
class BakedCommands final : public Executable {
 public:
  /// @param storages kept alive as long as this
  /// @param state the block that run() writes; may be null
  BakedCommands(Context& context, CommandList list, std::vector<StoragePtr> storages, StoragePtr state,
                RecordingFigures figures);
  ~BakedCommands() override;

  void run(std::span<const std::byte> state) override;
  const RecordingFigures& figures() const override { return figures_; }

 private:
  /// The commands in buffers, some hundred in each; with timestamps, where those are given.
  struct Buffers {
    std::vector<VkCommandBuffer> commands;
    std::deque<TimedCommands> timed;  ///< of each
    std::uint32_t profile = 0;        ///< that the timestamps are for
    std::uint64_t last_run = 0;       ///< the recorder's mark
  };
  void encode_all(Buffers& buffers, Timestamps* timestamps);
  void encode(VkCommandBuffer commands, std::size_t begin, std::size_t end, TimedCommands* timed);
  void encode(VkCommandBuffer commands, const Command& command, VkPipeline& bound);
  void barrier(VkCommandBuffer commands, unsigned before, unsigned behind);
  void run_timed();

  Context& context_;
  CommandList list_;
  std::vector<StoragePtr> storages_;
  StoragePtr state_;
  RecordingFigures figures_;
  std::vector<unsigned> stages_;  ///< of each group
  VkCommandPool pool_ = VK_NULL_HANDLE;
  Buffers plain_;
  std::array<Buffers, 3>
      timed_;  ///< used in turn while a profile is taken: results are read before a buffer runs again
  std::size_t turn_ = 0;
};

}  // namespace etna::vulkan
