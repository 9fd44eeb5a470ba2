#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include <etna/device/arguments.h>
#include <etna/device/internal/foreign_work.h>
#include <etna/device/internal/graph/fusion_info.h>
#include <etna/device/internal/graph/hazards.h>
#include <etna/device/internal/graph/schedule.h>
#include <etna/device/kernel.h>
#include <etna/device/profile/profiler.h>

/// The commands of a graph: typed, in order, without a backend's objects.
namespace etna::graph {

/// Elements [begin, begin + count) of one of the list's pools.
struct Slice {
  std::uint32_t begin = 0, count = 0;
};

/// Calls the kernel of an op on the host.
struct CallCommand {
  std::function<void()> run;
};
struct DispatchCommand {
  gpu::Shader shader{};
  Slice spec;  ///< specialization constants
  std::array<std::uint32_t, 3> groups{};
  std::uint32_t info = kUnknown;  ///< what it computes: its place among CommandList::infos

  static constexpr std::uint32_t kUnknown = ~0u;
};
struct CubinCommand {
  const gpu::CubinKernel* kernel = nullptr;
  std::array<std::uint32_t, 3> groups{};
  std::uint32_t threads = 0, shared_bytes = 0;
};
/// From the range that the command reads to the one that it writes.
struct CopyCommand {};
/// Of the range that the command writes.
struct FillCommand {
  std::uint32_t word = 0;
};

/// Runs beside the commands behind it.
struct ForeignCommand {
  std::shared_ptr<gpu::ForeignWork> work;
  std::uint32_t until = 0;  ///< the last group beside which it may run
};

struct Command {
  std::array<char, 32> op{};  ///< for errors and the profiler
  std::variant<CallCommand, DispatchCommand, CubinCommand, CopyCommand, FillCommand, ForeignCommand> work;
  Slice arguments;      ///< bytes: a shader's push constants, a cubin's parameters
  Slice addresses;      ///< offsets of the addresses among those bytes
  Slice reads, writes;  ///< ranges of memory
  std::uint32_t group = 0;
  std::uint32_t stands_for = 1;  ///< commands of the capture: more than one if they were fused
  profile::Labels labels;

  void name(std::string_view text);
  const ForeignCommand* foreign() const { return std::get_if<ForeignCommand>(&work); }
  bool moves_bytes() const {
    return std::holds_alternative<CopyCommand>(work) || std::holds_alternative<FillCommand>(work);
  }
  Stage stage() const { return moves_bytes() ? kTransfer : kCompute; }
};

/// What a dispatch computes, for fusion.
using FusionInfo = std::variant<gpu::ElementwiseInfo, gpu::PrologueFusion>;

/// Commands, and pools of what they refer to: a command of a few hundred bytes, and no allocation for each.
struct CommandList {
  std::vector<Command> commands;
  std::vector<std::byte> bytes;
  std::vector<std::uint32_t> offsets;  ///< of addresses
  std::vector<std::uint32_t> constants;
  std::vector<MemoryRange> ranges;
  std::vector<FusionInfo> infos;

  std::span<const MemoryRange> reads(const Command& c) const { return of(ranges, c.reads); }
  std::span<const MemoryRange> writes(const Command& c) const { return of(ranges, c.writes); }
  Accesses accesses(const Command& c) const { return {reads(c), writes(c)}; }
  std::span<const std::byte> arguments(const Command& c) const { return of(bytes, c.arguments); }
  std::span<const std::uint32_t> addresses(const Command& c) const { return of(offsets, c.addresses); }
  std::span<const std::uint32_t> spec(const DispatchCommand& d) const { return of(constants, d.spec); }
  const FusionInfo* info(const Command& c) const;

  /// Gives the command these bytes and addresses, behind those of `first`, and these ranges.
  void set_arguments(Command& c, const Arguments& arguments, const Command* first = nullptr);
  void set_ranges(Command& c, std::span<const MemoryRange> reads, std::span<const MemoryRange> writes);
  Slice add_constants(std::span<const std::uint32_t> values);

 private:
  template <typename T>
  static std::span<const T> of(const std::vector<T>& pool, Slice s) {
    return {pool.data() + s.begin, s.count};
  }
};

}  // namespace etna::graph
