#pragma once

#include <cstdint>

#include <etna/tensor/op.h>

/// Scans along contiguous rows (shaders/scan/accumulate.comp).
namespace etna::scan {

/// Numbered as in shaders/scan/accumulate.comp.
enum class Kind : int { sum, product, largest, smallest, log_sum_exp, recurrence };

/// @param x [..., n] @param factors undefined, or for a recurrence, of x's shape and dtype
/// @param y contiguous, x's shape @param indices undefined, or i64 for largest and smallest
/// @return false if there is no kernel for these dtypes
bool on_gpu(const OpCall& call, Kind kind, bool reverse, const Tensor& x, const Tensor& factors, const Tensor& y,
            const Tensor& indices);

/// s[i] = b[i] + a[i] · s[i-1] along the last dimension, s[-1] = 0; reversed: s[i] = b[i] + a[i] · s[i+1].
/// @param a, b floating, of one shape and dtype
Tensor linear_recurrence(const Tensor& a, const Tensor& b, bool reverse = false);

}  // namespace etna::scan
