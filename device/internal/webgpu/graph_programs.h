#pragma once

#include <cstdint>
#include <vector>

#include <etna/device/internal/graph/graph.h>
#include <etna/device/internal/webgpu/queue.h>

namespace etna::webgpu {

/// A graph's dispatches, with copies and fills as dispatches of kernels of their own. WebGPU has no command buffers
/// that run twice: a run encodes the dispatches anew, with arguments that lie on the device.
class GraphPrograms final : public Executable {
 public:
  /// @param graph planned, and alive as long as this object
  GraphPrograms(Queue& queue, const Graph& graph);
  ~GraphPrograms() override;

  void run(std::span<const std::byte> numbers) override;

 private:
  struct Part {
    std::uint32_t program;
    std::vector<javascript::EncodedDispatch> commands;
  };
  void add(const graph::Command& command);
  void end_part();

  Queue& queue_;
  const Graph& graph_;
  Batch open_;
  std::vector<Part> parts_;
};

}  // namespace etna::webgpu
