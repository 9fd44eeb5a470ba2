#pragma once

#include <cstddef>
#include <span>

namespace etna {

/// A graph as its backend runs it. Made by Backend::compile().
class Executable {
 public:
  virtual ~Executable() = default;
  /// Writes `numbers` to the graph's block of them, then queues one run after everything queued on the device.
  /// @throws DeviceLost, OutOfMemory (of the driver)
  virtual void run(std::span<const std::byte> numbers) = 0;
};

}  // namespace etna
