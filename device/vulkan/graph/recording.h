#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include <etna/device/device.h>
#include <etna/device/memory.h>
#include <etna/device/vulkan/api/types.h>

/// Recording commands once to submit them many times. Free of Vulkan's own headers.
namespace etna::vulkan {

/// What became of a recording.
struct RecordingFigures {
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
  std::size_t constant_bytes = 0;  ///< of tables of addresses, and of the step state
};

/// Commands baked into command buffers, with the memory they work in.
class Executable {
 public:
  virtual ~Executable() = default;
  /// Queues one run behind all that is queued on the device, after `state` was written to the state block.
  /// @throws DeviceLost, OutOfMemory (of the driver)
  virtual void run(std::span<const std::byte> state) = 0;
  virtual const RecordingFigures& figures() const = 0;
};

/// Takes the place of the recorder in the thread where it is current: commands for its device gather here and nothing runs;
/// storages get addresses that stand for memory planned at the end.
///
/// Why addresses need no help from kernels: those handed out lie in a range no device uses (their upper half is a NaN as a float,
/// below -600,000 as a number), so that two neighbouring words of push constants or tables that look like one are one.
class Recording {
 public:
  /// @param one_by_one each command is a group of its own
  explicit Recording(Device device, bool one_by_one = false);
  ~Recording();
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  /// That of this thread, or null.
  static Recording* current();
  /// @returns the one before
  static Recording* set_current(Recording* recording);

  Device device() const;
  StoragePtr allocate(std::size_t bytes);
  /// A storage from before the recording that commands use. It must outlive the executable.
  void pin(const StoragePtr& storage);
  /// So many bytes of the block of numbers that each run writes anew. @returns their place in it
  std::size_t reserve_state(std::size_t bytes);
  /// Where that place is for kernels.
  std::uint64_t state_address(std::size_t place) const;
  std::size_t state_bytes() const;

  void dispatch(const Dispatch& dispatch, void* pipeline);
  void launch(const CubinDispatch& dispatch, void* function);
  void copy(std::uint64_t from, std::uint64_t to, std::size_t bytes);
  void fill(std::uint64_t to, std::size_t bytes, std::uint32_t word);
  /// Bytes that never change: they are written once, when the program is baked. @throws CaptureError for a storage from before
  void constant(std::uint64_t to, std::span<const std::byte> bytes);

  /// Groups, plans, allocates, encodes. Ends the recording; must not be current any more.
  /// @throws OutOfMemory, CaptureError where a command touches memory nobody named
  std::unique_ptr<Executable> bake();

  /// True for an address handed out by a recording and never given memory.
  static bool is_placeholder(std::uint64_t address);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace etna::vulkan
