#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include <etna/device/device.h>
#include <etna/device/memory.h>

/// Recording the work of a step once, to run it many times: what capture asks of a backend that runs GPU kernels.
namespace etna::gpu {

/// What became of a recording.
struct GraphFigures {
  std::uint32_t dispatches = 0;
  std::uint32_t transfers = 0;          ///< copies and fills on the device
  std::uint32_t groups = 0;             ///< commands of one group run side by side
  std::uint32_t barriers_in_order = 0;  ///< what the commands would need in the order they were recorded
  std::uint32_t barriers = 0;           ///< what they need in groups
  std::uint32_t fused_commands = 0;     ///< of those recorded, that were joined ...
  std::uint32_t fused_kernels = 0;      ///< ... and what they became; `dispatches` counts these
  std::uint32_t compiled_kernels = 0;   ///< of these, that were not known from before
  std::uint64_t fused_bytes = 0;        ///< that a run does not read and write because of it
  double compile_ms = 0;
  std::size_t planned_bytes = 0;   ///< of what lives within a run only, in shared memory
  std::size_t live_bytes = 0;      ///< the most of that alive at one time: the least a plan can reach
  std::size_t naive_bytes = 0;     ///< of the same without sharing
  std::size_t kept_bytes = 0;      ///< of what somebody still held when recording ended: outputs, gradients
  std::size_t constant_bytes = 0;  ///< of tables, and of the numbers that each run writes
};

/// A recording compiled by its backend, with the memory it works in.
class Executable {
 public:
  virtual ~Executable() = default;
  /// Queues one run behind all that is queued on the device, after `numbers` was written to its block.
  /// @throws DeviceLost, OutOfMemory (of the driver)
  virtual void run(std::span<const std::byte> numbers) = 0;
  virtual const GraphFigures& figures() const = 0;
};

struct GraphOptions {
  bool one_by_one = false;  ///< each command is a group of its own
};

/// Takes the place of the device's queue in the thread where it is entered: work for the device gathers here and
/// nothing runs; storages get placeholder addresses, which become those of planned memory at the end. Where addresses
/// stand is stated with each command's arguments (device/arguments.h).
class GraphRecorder {
 public:
  virtual ~GraphRecorder() = default;

  virtual void enter() = 0;
  virtual void leave() = 0;

  virtual StoragePtr allocate(std::size_t bytes) = 0;
  /// Whether a storage was made by a recording and has had no memory yet.
  virtual bool made(const Storage& storage) const = 0;
  /// A storage from before the recording that commands use. It must outlive the executable.
  virtual void pin(const StoragePtr& storage) = 0;

  /// So many bytes of the block of numbers that each run writes anew. @returns their place in it
  virtual std::size_t reserve_numbers(std::size_t bytes) = 0;
  /// That block.
  virtual const StoragePtr& numbers() const = 0;

  /// Fuses, groups, plans, allocates, encodes. Ends the recording; must not be entered any more.
  /// @throws OutOfMemory, CaptureError where a command touches memory nobody named
  virtual std::unique_ptr<Executable> compile() = 0;
};

}  // namespace etna::gpu
