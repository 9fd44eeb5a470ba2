#include <etna/device/vulkan/graph/fusion/fuse.h>

#include <algorithm>
#include <cstring>

#include <etna/device/error.h>
#include <etna/device/log.h>
#include <etna/device/transfers.h>
#include <etna/device/vulkan/graph/fusion/glsl.h>
#include <etna/device/vulkan/graph/fusion/kernel_text.h>
#include <etna/device/graph/fusion/plan.h>

namespace etna::vulkan::fusion {
namespace {

using graph::fusion::Candidate;
using graph::fusion::Plan;

std::uint64_t bytes_of(std::span<const Range> ranges) {
  std::uint64_t bytes = 0;
  for (const Range& r : ranges) bytes += r.bytes;
  return bytes;
}

/// Workgroups along x, folded into y where there are too many.
std::array<std::uint32_t, 3> grid(std::uint32_t count) {
  constexpr std::uint32_t limit = 65535;
  const std::uint32_t rows = (count + limit - 1) / limit;
  return {(count + rows - 1) / rows, rows, 1};
}

/// Appends elements [begin, begin + count) of a pool to its end. @return their position
template <typename T>
std::uint32_t copy_to_end(std::vector<T>& pool, std::size_t begin, std::size_t count) {
  const std::size_t at = pool.size();
  pool.resize(at + count);
  std::copy_n(pool.begin() + static_cast<std::ptrdiff_t>(begin), count, pool.begin() + static_cast<std::ptrdiff_t>(at));
  return static_cast<std::uint32_t>(at);
}

class Rewriter {
 public:
  Rewriter(Context& context, CommandList& list, const std::function<Pointer(const Arguments&)>& constant)
      : context_(context), list_(list), constant_(constant) {}

  Figures rewrite(const Plan& plan) {
    std::vector<Command> commands;
    for (const Plan::Unit& unit : plan.units) {
      if (unit.members.size() == 1 || !join(unit, commands)) {
        for (std::uint32_t member : unit.members) commands.push_back(list_.commands[member]);
      }
    }
    list_.commands = std::move(commands);
    return figures_;
  }

 private:
  /// False if the kernel cannot be made; its commands then run one after another.
  bool join(const Plan::Unit& unit, std::vector<Command>& commands) {
    try {
      commands.push_back(joined(unit));
    } catch (const DeviceError& error) {
      if (strict()) throw;
      log().warn("{}; these ops are not fused", error.what());
      return false;
    }
    return true;
  }

  Command joined(const Plan::Unit& unit) {
    const Command& last = list_.commands[unit.members.back()];
    const Kernel& kernel = unit.kernel;
    Command command = last;
    std::vector<std::uint32_t> spec;
    if (kernel.through != nullptr) spec = kernel.through->spec;
    const std::size_t pushed = kernel.through != nullptr ? last.push_bytes : 0;
    const KernelText text = kernel_text(kernel, pushed, context_.logical.adapter.capabilities.compute_units);
    if (kernel.through == nullptr)
      command.groups = grid((kernel.n + text.elements_a_group - 1) / text.elements_a_group);
    command.pipeline = &pipeline(text, spec);
    command.op = {};
    std::memcpy(command.op.data(), text.label.data(), std::min(text.label.size(), command.op.size() - 1));
    command.labels = list_.commands[unit.members.front()].labels;

    Arguments arguments;
    if (text.in_table) {
      arguments.table(constant_(text.arguments), text.arguments);
    } else {
      arguments = text.arguments;
    }
    count(unit, bytes_of(text.arguments.reads()) + bytes_of(text.arguments.writes()));
    std::vector<Range> reads(arguments.reads().begin(), arguments.reads().end());
    std::vector<Range> writes(arguments.writes().begin(), arguments.writes().end());
    if (kernel.through != nullptr) {
      // Its own arguments come before those of the prologue, which it now reads instead of x.
      std::span<const Range> own = list_.writes(last);
      writes.insert(writes.end(), own.begin(), own.end());
      command.push_begin = copy_to_end(list_.pushes, last.push_begin, last.push_bytes);
      command.addresses_begin = copy_to_end(list_.addresses, last.addresses_begin, last.addresses);
    } else {
      command.push_begin = static_cast<std::uint32_t>(list_.pushes.size());
      command.addresses_begin = static_cast<std::uint32_t>(list_.addresses.size());
      command.addresses = 0;
    }
    list_.pushes.insert(list_.pushes.end(), arguments.bytes().begin(), arguments.bytes().end());
    command.push_bytes = static_cast<std::uint32_t>(pushed + arguments.bytes().size());
    for (const Arguments::Address& a : arguments.addresses()) {
      list_.addresses.push_back(static_cast<std::uint32_t>(pushed) + a.offset);
    }
    command.addresses += static_cast<std::uint32_t>(arguments.addresses().size());
    command.ranges_begin = static_cast<std::uint32_t>(list_.ranges.size());
    command.reads = static_cast<std::uint32_t>(reads.size());
    command.writes = static_cast<std::uint32_t>(writes.size());
    list_.ranges.insert(list_.ranges.end(), reads.begin(), reads.end());
    list_.ranges.insert(list_.ranges.end(), writes.begin(), writes.end());
    return command;
  }

  Pipeline& pipeline(const KernelText& text, std::span<const std::uint32_t> spec) {
    GlslFigures figures;
    const Shader& shader = compile_glsl(text.source, figures);
    figures_.compiled += figures.compiled;
    figures_.compile_ms += figures.compile_ms;
    std::lock_guard lock(context_.mutex);
    bool made = false;
    Pipeline& pipeline = context_.pipelines.get(shader, spec, text.label, made);
    if (made) context_.recorder.count_pipeline();
    return pipeline;
  }

  void count(const Plan::Unit& unit, std::uint64_t now) {
    std::uint64_t before = 0;
    for (std::uint32_t member : unit.members) {
      const Command& c = list_.commands[member];
      before += bytes_of(list_.reads(c)) + bytes_of(list_.writes(c));
    }
    figures_.commands += static_cast<std::uint32_t>(unit.members.size());
    ++figures_.kernels;
    figures_.bytes += before > now ? before - now : 0;
  }

  Context& context_;
  CommandList& list_;
  const std::function<Pointer(const Arguments&)>& constant_;
  Figures figures_;
};

}  // namespace

Figures fuse(Context& context, CommandList& list, std::span<const FusionInfo> infos, std::span<const Range> dropped,
             const std::function<Pointer(const Arguments&)>& constant) {
  std::vector<Candidate> candidates;
  for (std::size_t i = 0; i < list.commands.size(); ++i) {
    const Command& c = list.commands[i];
    candidates.push_back({{list.reads(c), list.writes(c)},
                          std::get_if<ElementwiseInfo>(&infos[i]),
                          std::get_if<PrologueFusion>(&infos[i])});
  }
  const Plan made = plan(candidates, dropped);
  return Rewriter(context, list, constant).rewrite(made);
}

}  // namespace etna::vulkan::fusion
