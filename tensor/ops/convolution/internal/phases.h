#pragma once

#include <optional>

#include <etna/tensor/ops/convolution/internal/geometry.h>

/// The gradient by x of a convolution with a stride, without multiplying by the zeros between y's pixels. Position
/// s·q + r of x, whose phase is r, meets taps s·u + r + constant of the kernel only. So with the phases as channels,
/// x [N, in / s..., phases · C] is the input of a convolution with stride 1, whose kernel is the given one between
/// zeros, divided into phases in the same way.
namespace etna::convolution {

struct Phases {
  Geometry geometry;          ///< of the convolution with stride 1
  Three stride{}, before{};   ///< of the given one; zeros before its kernel
  std::int64_t channels = 0;  ///< C of the given one; `geometry` may have more than all phases together

  std::int64_t count() const { return stride[0] * stride[1] * stride[2]; }
};

/// @return nothing if x's sizes are no multiples of the stride, for a stride along the first of three dimensions, or
/// where the zeros cost more than summing up patches
std::optional<Phases> phases_of(const Geometry& g, DType t, Device device);
/// @param weight [K, kernel..., C] @return [K, kernel..., channels of `geometry`]
Tensor phases_of_weight(const Tensor& weight, const Phases& p);
/// @param bias [C] or undefined @return [channels of `geometry`] or undefined
Tensor phases_of_bias(const Tensor& bias, const Phases& p);
/// @param phases [N, in / s..., channels of `geometry`] @param x [N, in..., C], receives them
void copy_from_phases(const Tensor& phases, const Phases& p, Tensor x);

}  // namespace etna::convolution
