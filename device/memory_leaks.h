#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <etna/device/device.h>

/// Memory that outlives the step that made it: a list of losses that grows, a sum that keeps every tape. ETNA_LEAKS=1
/// watches from the start and reports to standard error at exit (docs/memory.md).
namespace etna {

/// Live storages of one op, tensor and device that were made in steps that have ended.
struct Leak {
  Device device;
  std::string op;           ///< that made them
  std::string tensor;       ///< "[64, 512] f32", "4.0 KiB" where it is unknown
  std::uint64_t count = 0;  ///< storages
  std::uint64_t bytes = 0;
  std::int64_t first_step = 0, last_step = 0;  ///< that made one, from 0
};

/// Notes every storage from now on with the op that makes it; steps count from 0. Off: forgets all of them.
void watch_leaks(bool on);
bool watching_leaks();

/// Ends a step. Optimizer::step() calls it, and so does the replay of a captured step that contains one; other loops
/// (inference) may. Does nothing where nobody watches.
void end_step();

/// What grows, the most bytes first: the oldest was made at least 8 steps ago, and there are more than when it
/// became so old. Not among them: weights, gradients, optimizer state, data, the memory of captured steps, and what
/// was made before the first step ended. Empty where nobody watches.
std::vector<Leak> leaks();

/// leaks() as lines of text, or those of an earlier step where more was alive then: at the end of a program its lists
/// are gone.
std::string leaks_report();

namespace detail {
/// For those that make storages.
void note_tensor(const void* storage, const char* op, std::string tensor);
/// Since the process began, watched or not.
std::int64_t steps_ended();
}  // namespace detail

}  // namespace etna
