#include <etna/device/internal/graph/fuse.h>

#include <algorithm>

#include <fmt/format.h>

#include <etna/device/error.h>
#include <etna/device/internal/log.h>
#include <etna/device/memory.h>

namespace etna::graph::fusion {
namespace {

std::uint64_t bytes_of(std::span<const MemoryRange> ranges) {
  std::uint64_t bytes = 0;
  for (const MemoryRange& r : ranges) bytes += r.bytes;
  return bytes;
}

/// Workgroups along x, folded into y where there are too many.
std::array<std::uint32_t, 3> grid(std::uint32_t count) {
  constexpr std::uint32_t limit = 65535;
  const std::uint32_t rows = (count + limit - 1) / limit;
  return {(count + rows - 1) / rows, rows, 1};
}

/// The ops' names, as many as fit.
std::string label(const Kernel& kernel) {
  std::vector<std::string> names;
  for (const Kernel::Step& step : kernel.steps) names.emplace_back(step.name);
  if (kernel.through != nullptr) names.emplace_back(kernel.through->name);
  std::string text = "fused(";
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::size_t left = names.size() - i;
    const std::string rest = fmt::format("+{})", left);
    const std::size_t behind = left > 1 ? 2 + rest.size() : 1;
    if (text.size() + names[i].size() + behind + 1 > kLabelBytes) return text + rest;
    text += names[i] + (left > 1 ? ", " : ")");
  }
  return text;
}

class Rewriter {
 public:
  Rewriter(CommandList& list, KernelWriter& writer, const std::function<Pointer(const Arguments&)>& constant,
           CaptureReport& report)
      : list_(list), writer_(writer), constant_(constant), report_(report) {}

  void rewrite(const Plan& plan) {
    std::vector<Command> commands;
    for (const Plan::Unit& unit : plan.units) {
      if (unit.members.size() == 1 || !join(unit, commands)) {
        for (std::uint32_t member : unit.members) commands.push_back(list_.commands[member]);
      }
    }
    list_.commands = std::move(commands);
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
    const DispatchCommand& reduction = std::get<DispatchCommand>(last.work);
    const Kernel& kernel = unit.kernel;
    const bool reduces = kernel.through != nullptr;
    const std::string name = label(kernel);
    const WrittenKernel written = reduces ? writer_.write(kernel, name, list_.spec(reduction), last.arguments.count)
                                          : writer_.write(kernel, name, {}, 0);
    report_.compiled_kernels += written.compiled;
    report_.compile_ms += written.compile_ms;
    count(unit, bytes_of(written.arguments.reads()) + bytes_of(written.arguments.writes()));

    DispatchCommand dispatch{.shader = written.shader, .spec = {}, .groups = {}};
    if (reduces) {
      dispatch.spec = reduction.spec;
      dispatch.groups = reduction.groups;
    } else {
      dispatch.groups = grid((kernel.n + written.elements_a_group - 1) / written.elements_a_group);
    }
    Command command;
    command.name(name);
    command.labels = list_.commands[unit.members.front()].labels;
    command.work = dispatch;
    command.stands_for = static_cast<std::uint32_t>(unit.members.size());

    Arguments arguments;
    if (written.in_table) {
      arguments.table(constant_(written.arguments), written.arguments);
    } else {
      arguments = written.arguments;
    }
    std::vector<MemoryRange> writes(arguments.writes().begin(), arguments.writes().end());
    if (reduces) {
      // Its own arguments come before those of the prologue, which it now reads instead of x.
      const std::span<const MemoryRange> own = list_.writes(last);
      writes.insert(writes.end(), own.begin(), own.end());
    }
    list_.set_arguments(command, arguments, reduces ? &last : nullptr);
    list_.set_ranges(command, arguments.reads(), writes);
    return command;
  }

  void count(const Plan::Unit& unit, std::uint64_t now) {
    std::uint64_t before = 0;
    for (std::uint32_t member : unit.members) {
      const Command& c = list_.commands[member];
      before += bytes_of(list_.reads(c)) + bytes_of(list_.writes(c));
    }
    report_.fused_commands += static_cast<std::int64_t>(unit.members.size());
    ++report_.fused_kernels;
    report_.fused_bytes += before > now ? before - now : 0;
  }

  CommandList& list_;
  KernelWriter& writer_;
  const std::function<Pointer(const Arguments&)>& constant_;
  CaptureReport& report_;
};

}  // namespace

void fuse(CommandList& list, std::span<const MemoryRange> dropped, KernelWriter& writer,
          const std::function<Pointer(const Arguments&)>& constant, CaptureReport& report) {
  std::vector<Candidate> candidates;
  for (const Command& c : list.commands) {
    Candidate& candidate = candidates.emplace_back(Candidate{{list.reads(c), list.writes(c)}});
    if (const FusionInfo* info = list.info(c)) {
      candidate.elementwise = std::get_if<ElementwiseInfo>(info);
      if (writer.writes_reductions()) candidate.through = std::get_if<PrologueFusion>(info);
    }
  }
  const Plan made = plan(candidates, dropped);
  Rewriter(list, writer, constant, report).rewrite(made);
}

}  // namespace etna::graph::fusion
