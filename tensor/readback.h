#pragma once

#include <memory>

#include <etna/tensor/tensor.h>

namespace etna {

/// A number on its way to the host. Where it comes from a GPU, nobody waits for it until get() is called too early.
class PendingValue {
 public:
  PendingValue() = default;
  /// False for one that was default-made.
  bool defined() const { return state_ != nullptr; }
  /// True where get() would not wait. What was queued must reach the GPU first: with the next step, or a synchronize().
  bool ready() const;
  /// The value; waits where it is not there yet. May be called again. @throws DeviceLost
  double get() const;

 private:
  friend PendingValue read_later(const Tensor& x);
  struct State;
  std::shared_ptr<State> state_;
};

/// Asks for the only element of a tensor, as it is once everything queued so far has run. Counted as a transfer.
/// @throws ShapeError where there is not exactly one element
PendingValue read_later(const Tensor& x);

}  // namespace etna
