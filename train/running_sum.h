#pragma once

#include <etna/tensor/tensor.h>

namespace etna::training {

/// A sum of many numbers on a device, as exact as one in twice the precision (Kahan 1965). Captured steps may add to
/// it.
class RunningSum {
 public:
  explicit RunningSum(Device device);
  /// @param value 0-d
  void add(const Tensor& value);
  void reset();
  /// Waits for the device.
  double value() const;

  Tensor total;  ///< 0-d f32: the sum, rounded; what a checkpoint keeps

 private:
  Tensor excess_;  ///< how much larger `total` is than the sum
};

}  // namespace etna::training
