#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <etna/device/internal/graph/fusion_info.h>
#include <etna/device/internal/graph/schedule.h>

/// Decides which commands of a graph become one kernel. Pure bookkeeping, the same for every backend.
namespace etna::graph::fusion {

using gpu::ElementwiseInfo;
using gpu::PrologueFusion;
using gpu::StridedView;

/// A command as fusion sees it; both pointers null: any other work.
struct Candidate {
  Accesses accesses;
  const ElementwiseInfo* elementwise = nullptr;
  const PrologueFusion* through = nullptr;
};

/// What one kernel computes at each position of an iteration: it loads, runs the steps in order, and stores.
struct Kernel {
  struct Operand {
    enum class Kind : std::uint8_t { none, load, step, scalar } kind = Kind::none;
    std::uint32_t index = 0;  ///< into loads, steps or scalars
    friend bool operator==(const Operand&, const Operand&) = default;
  };
  struct Load {
    StridedView view;
    bool integers = false;  ///< i64 is converted to int or to float, as its reader needs it
    friend bool operator==(const Load&, const Load&) = default;
  };
  struct Step {
    const char* name;
    const char* expression;
    bool integers;
    std::uint32_t dtype;  ///< the dtype to which its value is rounded, as if it were stored
    std::array<Operand, 3> operands;
  };
  struct Store {
    StridedView view;
    std::uint32_t step;
  };

  std::vector<Load> loads;
  std::vector<std::uint32_t> scalars;
  std::vector<Step> steps;
  std::vector<Store> stores;  ///< empty where `through` reads the last step's value
  const PrologueFusion* through = nullptr;
  std::uint32_t n = 0;
};

/// Commands [0, n) of a graph in a new order; the commands of one kernel form one unit.
struct Plan {
  struct Unit {
    std::vector<std::uint32_t> members;  ///< in the order of the calls
    Kernel kernel;                       ///< if there are several members
  };
  std::vector<Unit> units;
};

inline constexpr std::size_t kMostSteps = 24, kMostLoads = 10, kMostStores = 6;

/// Fuses elementwise commands with those whose results they read at the same position, as long as every other command
/// still sees the same memory; then reductions with the commands that compute all they read.
/// @param dropped storages that nobody refers to after the capture, in order of address: a value in one of them that
/// only its own kernel reads is not stored
Plan plan(std::span<const Candidate> commands, std::span<const MemoryRange> dropped);

}  // namespace etna::graph::fusion
