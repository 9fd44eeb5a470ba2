#pragma once

#include <cstdint>

/// Optimizers' steps over flat memory, by vectors chosen at run time.
namespace etna::cpu {

/// s = gradient · factor + decay · x;  m += (s - m) · fresh1;  v = beta2 · v + fresh2 · s²;
/// x = x · shrink - size · m / (√v / second_bias + eps)
struct AdamNumbers {
  float factor = 1, decay = 0, shrink = 1;
  float fresh1 = 0, beta2 = 0, fresh2 = 0;
  float size = 0, second_bias = 1, eps = 0;
};
/// One pass: reads four arrays and writes three, which bounds it.
void adam(const AdamNumbers& numbers, float* x, const float* gradient, float* m, float* v, std::int64_t n);

}  // namespace etna::cpu
