#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include <etna/device/device.h>
#include <etna/device/memory.h>

/// Records the work of a step once, to run it many times: what capture needs from a backend that runs GPU kernels.
namespace etna::gpu {

/// Statistics of a compiled recording.
struct GraphFigures {
  std::uint32_t dispatches = 0;
  std::uint32_t transfers = 0;          ///< copies and fills on the device
  std::uint32_t groups = 0;             ///< commands of one group run concurrently
  std::uint32_t barriers_in_order = 0;  ///< needed if commands ran in recorded order
  std::uint32_t barriers = 0;           ///< needed between groups
  std::uint32_t fused_commands = 0;     ///< recorded commands that were fused ...
  std::uint32_t fused_kernels = 0;      ///< ... into this many kernels; `dispatches` counts these
  std::uint32_t compiled_kernels = 0;   ///< of these, the ones not found in a cache
  std::uint64_t fused_bytes = 0;        ///< reads and writes that fusion saves per run
  double compile_ms = 0;
  std::size_t planned_bytes = 0;   ///< for storages that live within a run only, with sharing
  std::size_t live_bytes = 0;      ///< the most of that alive at one time: a lower bound for any plan
  std::size_t naive_bytes = 0;     ///< the same without sharing
  std::size_t kept_bytes = 0;      ///< storages still referenced when recording ended: outputs, gradients
  std::size_t constant_bytes = 0;  ///< tables, and the numbers that each run writes
};

/// A recording compiled by its backend, together with its memory.
class Executable {
 public:
  virtual ~Executable() = default;
  /// Writes `numbers` to their block, then queues one run after everything queued on the device.
  /// @throws DeviceLost, OutOfMemory (of the driver)
  virtual void run(std::span<const std::byte> numbers) = 0;
  virtual const GraphFigures& figures() const = 0;
};

struct GraphOptions {
  bool one_by_one = false;  ///< each command forms its own group
};

/// Replaces the device's queue in the thread that enters it. Commands for the device are collected and nothing runs.
/// Storages get placeholder addresses, which compile() replaces by addresses in planned memory. Each command's
/// arguments say where its addresses are (device/arguments.h).
class GraphRecorder {
 public:
  virtual ~GraphRecorder() = default;

  virtual void enter() = 0;
  virtual void leave() = 0;

  virtual StoragePtr allocate(std::size_t bytes) = 0;
  /// Whether a recording created this storage and has not given it memory yet.
  virtual bool made(const Storage& storage) const = 0;
  /// Keeps alive a storage from before the recording that commands use. It must outlive the executable.
  virtual void pin(const StoragePtr& storage) = 0;

  /// Reserves space in the block of numbers that the host writes before each run. @returns its offset in the block
  virtual std::size_t reserve_numbers(std::size_t bytes) = 0;
  /// The block of numbers.
  virtual const StoragePtr& numbers() const = 0;

  /// Fuses, groups, plans memory, allocates and encodes. Ends the recording; it must not be entered again.
  /// @throws OutOfMemory, CaptureError where a command touches memory of an unknown storage
  virtual std::unique_ptr<Executable> compile() = 0;
};

}  // namespace etna::gpu
