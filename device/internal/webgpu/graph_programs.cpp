#include <etna/device/internal/webgpu/graph_programs.h>

#include <fmt/format.h>

#include <etna/device/error.h>

namespace etna::webgpu {
namespace {

/// Dispatches of one submit. Bounds how long the browser's own drawing waits for it.
constexpr std::size_t kCommandsAPart = 256;

}  // namespace

GraphPrograms::GraphPrograms(Queue& queue, const Graph& graph) : queue_(queue), graph_(graph) {
  for (const graph::Command& command : graph.list().commands) {
    add(command);
    if (open_.commands.size() == kCommandsAPart) end_part();
  }
  if (!open_.commands.empty()) end_part();
  queue_.finish_building();
}

GraphPrograms::~GraphPrograms() {
  for (const Part& part : parts_) javascript::drop_program(part.program);
}

void GraphPrograms::add(const graph::Command& c) {
  const graph::CommandList& list = graph_.list();
  if (const auto* dispatch = std::get_if<graph::DispatchCommand>(&c.work)) {
    const std::uint32_t pipeline = queue_.pipeline(dispatch->shader.name, list.spec(*dispatch), c.op.data());
    open_.add(pipeline, dispatch->groups, list.arguments(c));
  } else if (const auto* fill = std::get_if<graph::FillCommand>(&c.work)) {
    const MemoryRange& to = list.writes(c)[0];
    queue_.add_fill(open_, to.address, to.bytes, fill->word);
  } else if (std::holds_alternative<graph::CopyCommand>(c.work)) {
    queue_.add_copy(open_, list.reads(c)[0].address, list.writes(c)[0].address, list.reads(c)[0].bytes);
  } else {
    throw DeviceError(fmt::format("{}: WebGPU runs no machine code", c.op.data()));
  }
}

void GraphPrograms::end_part() {
  parts_.push_back({javascript::make_program(open_.blocks), std::move(open_.commands)});
  open_.clear();
}

void GraphPrograms::run(std::span<const std::byte> numbers) {
  if (!numbers.empty()) queue_.upload(graph_.numbers()->address(), numbers);
  for (const Part& part : parts_) queue_.run(part.program, part.commands);
}

}  // namespace etna::webgpu
