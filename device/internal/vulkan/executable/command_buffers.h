#pragma once

#include <array>
#include <deque>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <etna/device/internal/graph/graph.h>
#include <etna/device/internal/vulkan/commands/context.h>
#include <etna/device/internal/vulkan/commands/queue_entries.h>
#include <etna/device/internal/vulkan/commands/timestamps.h>

namespace etna::vulkan {

/// A graph's command buffers.
class CommandBuffers final : public Executable {
 public:
  /// @param graph planned, and alive as long as this object
  CommandBuffers(Context& context, const Graph& graph);
  ~CommandBuffers() override;

  void run(std::span<const std::byte> numbers) override;

 private:
  /// Commands between which nothing else happens, and what GraphPiece says of them.
  struct Part {
    std::size_t begin = 0, end = 0;  ///< commands
    std::size_t first_buffer = 0, buffers = 0;
    GraphPiece piece;
    bool from_host = false, to_host = false;  ///< work of the host was waited for before, or begins behind
  };
  /// The commands, a few hundred per buffer; with timestamps, if requested.
  struct Buffers {
    std::vector<VkCommandBuffer> commands;
    std::deque<TimedCommands> timed;  ///< one per buffer
    std::uint32_t profile = 0;        ///< the profile that the timestamps belong to
    std::uint64_t last_run = 0;       ///< the queue's mark
  };
  QueueEntry resolved(const graph::Command& command) const;
  void divide();
  void note_host_work();
  std::span<const GraphPiece> pieces_of(const Buffers& buffers);
  void encode_all(Buffers& buffers, Timestamps* timestamps);
  void encode(VkCommandBuffer commands, std::size_t buffer, TimedCommands* timed);
  BufferSpan buffer_of(const Range& range) const;
  void barrier(VkCommandBuffer commands, unsigned before, unsigned behind);
  void run_timed();

  Context& context_;
  const Graph& graph_;
  std::vector<QueueEntry> entries_;  ///< the graph's commands, with this device's objects
  std::vector<unsigned> stages_;     ///< per group
  std::vector<Part> parts_;
  std::vector<std::pair<std::size_t, std::size_t>> ranges_;  ///< the commands of each buffer
  std::vector<GraphPiece> pieces_;
  VkCommandPool pool_ = VK_NULL_HANDLE;
  Buffers plain_;
  std::array<Buffers, 3>
      timed_;  ///< used in turn while a profile is taken: results are read before a buffer runs again
  std::size_t turn_ = 0;
};

/// Plans the graph and compiles it.
std::unique_ptr<Executable> compile(Graph& graph);

}  // namespace etna::vulkan
