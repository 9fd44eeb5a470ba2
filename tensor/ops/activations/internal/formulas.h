#pragma once

#include <etna/device/internal/cpu/math.h>
#include <etna/tensor/ops/activations/internal/functions.h>

/// Each row of activations.def as m::name(x) and m::name_backward(g, x). The compiler can vectorize a loop over them if
/// it can vectorize the functions they call.
namespace etna::m {

#define ETNA_ACTIVATION(number, name, module, result, saved, lo, hi, rows, kind, t_, value, gradient, second) \
  template <typename real>                                                                                    \
  real name(real x) {                                                                                         \
    [[maybe_unused]] const real t = t_;                                                                       \
    return value;                                                                                             \
  }                                                                                                           \
  template <typename real>                                                                                    \
  real name##_backward(real g, real x) {                                                                      \
    [[maybe_unused]] const real t = t_;                                                                       \
    return gradient;                                                                                          \
  }
#include <etna/tables/activations.def>
#undef ETNA_ACTIVATION

}  // namespace etna::m
