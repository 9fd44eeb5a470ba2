#pragma once

#include <cstdint>
#include <string>

#include <etna/device/device.h>

namespace etna {

/// What became of a captured step: its commands, their fusion, their order and their memory.
struct CaptureReport {
  std::string name;
  Device device;
  std::int64_t commands = 0;           ///< dispatches, copies and fills; on the CPU calls of ops
  std::int64_t dispatches = 0;         ///< of these, kernels of a GPU
  std::int64_t fused_commands = 0;     ///< elementwise ops and reductions of their results that were fused ...
  std::int64_t fused_kernels = 0;      ///< ... into this many kernels; `commands` counts the kernels
  std::int64_t compiled_kernels = 0;   ///< fused kernels that were compiled; the others were in the cache
  double compile_ms = 0;               ///< compile time, included in capture_ms
  std::uint64_t fused_bytes = 0;       ///< bytes that fusion saves each replay from reading and writing
  std::int64_t groups = 0;             ///< commands of one group run concurrently; on the CPU each command is a group
  std::int64_t barriers_eager = 0;     ///< in the first, eager call; 0 if there was none, and on the CPU
  std::int64_t barriers_in_order = 0;  ///< if commands ran in the order of the calls, each result in its own memory
  std::int64_t barriers = 0;           ///< in one replay; 0 on the CPU
  std::uint64_t planned_bytes = 0;     ///< memory for everything that lives only within a replay, shared over time
  std::uint64_t live_bytes = 0;        ///< the most of that alive at once: a lower bound for any plan
  std::uint64_t naive_bytes = 0;       ///< the same without sharing
  std::uint64_t kept_bytes = 0;        ///< results that outlive a replay: outputs, gradients
  std::uint64_t constant_bytes = 0;    ///< tables of addresses, and the state that changes from replay to replay
  std::uint64_t input_bytes = 0;       ///< copies of the arguments
  std::uint64_t state_bytes = 0;       ///< written by the host before each replay: learning rates, step numbers, seeds
  double capture_ms = 0;               ///< host time of capturing, planning and compiling

  std::string str() const;  ///< a few lines for people
};

}  // namespace etna
