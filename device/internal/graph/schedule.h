#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <etna/device/arguments.h>

/// Decides which commands of a graph may run concurrently. Pure bookkeeping, the same for every backend.
namespace etna::graph {

/// The memory that one command accesses.
struct Accesses {
  std::span<const MemoryRange> reads, writes;
  /// From 0 on: of foreign commands. They take their time beside the others, and those of one line do not overtake each
  /// other.
  int line = -1;
};

/// Whether one of them writes what the other accesses.
bool conflict(const Accesses& a, const Accesses& b);

/// For each command, the earlier ones it conflicts with. Transitively reduced: a dependency implied by others is left
/// out.
std::vector<std::vector<std::uint32_t>> dependencies(std::span<const Accesses> commands);

/// Assigns commands to groups 0, 1, 2 ... so that no two of a group conflict, and each command's group comes after
/// those of all earlier commands it conflicts with; one barrier between groups is then enough. A command goes to the
/// first possible group, but at most `reach` groups before the last: work that is ready long before it is needed would
/// only hold memory. One that waits for a foreign command stays behind all that was recorded before it, which runs
/// meanwhile. No command of a line gets a group before that of the line's earlier ones.
/// @return the group of each command
std::vector<std::uint32_t> group_commands(std::span<const Accesses> commands, std::uint32_t reach = 8);

}  // namespace etna::graph
