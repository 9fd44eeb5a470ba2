#pragma once

#include <memory>

#include <etna/tensor/tensor.h>

namespace etna {

/// A number on its way from a GPU to the host. Only a get() that comes too early waits.
class PendingValue {
 public:
  PendingValue() = default;
  /// False if default-constructed.
  bool defined() const { return state_ != nullptr; }
  /// True if get() would not wait. Queued work must reach the GPU first, with the next step or a synchronize().
  bool ready() const;
  /// The value; waits until it has arrived. May be called again. @throws DeviceLost
  double get() const;

 private:
  friend PendingValue read_later(const Tensor& x);
  struct State;
  std::shared_ptr<State> state_;
};

/// Reads the only element of a tensor, as it is once everything queued so far has run. Counted as a transfer.
/// @throws ShapeError unless there is exactly one element
PendingValue read_later(const Tensor& x);

}  // namespace etna
