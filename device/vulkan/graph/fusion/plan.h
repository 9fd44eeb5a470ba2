#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <etna/device/fusion_info.h>
#include <etna/device/vulkan/commands/schedule.h>

/// Which commands of a recorded program become one kernel. Pure bookkeeping: knows nothing of Vulkan.
namespace etna::vulkan::fusion {

/// A command as fusion sees it; both pointers null: any other work.
struct Candidate {
  Accesses accesses;
  const ElementwiseInfo* elementwise = nullptr;
  const PrologueFusion* through = nullptr;
};

/// What one kernel computes at each place of an iteration: it loads, goes through the steps in order, and stores.
struct Kernel {
  struct Operand {
    enum class Kind : std::uint8_t { none, load, step, scalar } kind = Kind::none;
    std::uint32_t index = 0;  ///< among loads, steps or scalars
    friend bool operator==(const Operand&, const Operand&) = default;
  };
  struct Load {
    StridedView view;
    bool integers = false;  ///< i64 is brought to int or to float, as its reader wants it
    friend bool operator==(const Load&, const Load&) = default;
  };
  struct Step {
    const char* name;
    const char* expression;
    bool integers;
    std::uint32_t dtype;  ///< that its value is rounded to, as if it were stored
    std::array<Operand, 3> operands;
  };
  struct Store {
    StridedView view;
    std::uint32_t step;
  };

  std::vector<Load> loads;
  std::vector<std::uint32_t> scalars;
  std::vector<Step> steps;
  std::vector<Store> stores;  ///< none where `through` reads the last step's value
  const PrologueFusion* through = nullptr;
  std::uint32_t n = 0;
};

/// Commands [0, n) of a program in a new order, those of one kernel in one unit.
struct Plan {
  struct Unit {
    std::vector<std::uint32_t> members;  ///< in the order recorded
    Kernel kernel;                       ///< where there are several
  };
  std::vector<Unit> units;
};

inline constexpr std::size_t kMostSteps = 24, kMostLoads = 10, kMostStores = 6;

/// Joins elementwise commands with those whose results they read at the same place, as long as every other command
/// still sees what it saw; then reductions with what computes all they read.
/// @param dropped storages that nobody holds once the program is recorded, in order of address: a value that lives in
/// one and that only its own kernel reads is not stored
Plan plan(std::span<const Candidate> commands, std::span<const Range> dropped);

}  // namespace etna::vulkan::fusion
