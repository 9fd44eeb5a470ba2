#pragma once

#include <cstddef>
#include <cstdint>

#include <etna/device/internal/foreign_work.h>
#include <etna/device/kernel.h>

namespace etna::gpu {

/// Takes what a thread queues on a device (device/kernel.h), in the place of the device's queue: the graph of a step
/// that is being captured.
class CommandSink {
 public:
  virtual ~CommandSink() = default;
  virtual Device device() const = 0;
  /// Spans need to live until the function returns.
  virtual void dispatch(const Dispatch& dispatch) = 0;
  virtual void dispatch(const CubinDispatch& dispatch) = 0;
  virtual void copy(std::uint64_t from, std::uint64_t to, std::size_t bytes) = 0;
  virtual void fill(std::uint64_t to, std::size_t bytes, std::uint32_t word) = 0;
  virtual void update(std::uint64_t to, const Arguments& rows) = 0;
  virtual void foreign(const ForeignCall& call) = 0;

  /// This thread's; null where commands go to the queue.
  static CommandSink* current();
  /// @returns the previous one
  static CommandSink* set_current(CommandSink* sink);
};

}  // namespace etna::gpu
