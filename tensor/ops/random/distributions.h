#pragma once

#include <etna/tensor/tensor.h>

/// Random numbers beyond rand(), randn() and randint(): Philox4x32-10 too, with the same bits on every device and new
/// ones at each replay of a captured step. Nothing here has a gradient. Tensor::uniform_() and its family fill in
/// place.
namespace etna {

/// 1 with probability p, else 0; p element by element, of its shape and dtype. A uniform number below p decides: 24
/// bits, or 53 for f64. @throws ShapeError for p outside [0, 1], which the CPU checks outside captured steps
Tensor bernoulli(const Tensor& p);
/// With one probability for all elements of x's shape; x's values are not read.
Tensor bernoulli(const Tensor& x, double p);
/// mean + std · randn(), broadcast. @throws ShapeError for a negative std given as a number
Tensor normal(const Tensor& mean, const Tensor& std);
Tensor normal(const Tensor& mean, double std = 1);
Tensor normal(double mean, const Tensor& std);
Tensor normal(double mean, double std, Shape shape, TensorOptions options = {});
/// Numbers of events at a mean rate, of its shape and dtype. A rate below 12 counts the sums of up to 48 exponential
/// gaps, for which memory is taken: exact to f32's rounding. Above, a normal number is turned into the quantile by the
/// Cornish-Fisher expansion: the distribution function is within 3e-4 of the exact one. Devices round gaps differently,
/// so a number may differ where two are that close.
/// @throws ShapeError for a rate that is negative or NaN, which the CPU checks outside captured steps
Tensor poisson(const Tensor& rate);
/// Numbers of successes in `count` trials of probability `prob`, broadcast, in the same way: by gaps between successes
/// (or failures) where fewer than 12 are expected. @param count whole numbers ≥ 0, floating
Tensor binomial(const Tensor& count, const Tensor& prob);
/// A random order of 0 ... n - 1. @param options an integer dtype, or floating
Tensor randperm(std::int64_t n, TensorOptions options = {DType::i64});
/// Indices drawn with probabilities proportional to `weights`, which need not add up to 1. Devices round the sums and
/// quotients of weights differently, so an index may differ where two classes are that close.
/// @param weights [K] or [B, K], floating, not negative, K ≤ 2^24 @return i64 [num_samples] or [B, num_samples]
/// @throws ShapeError where more samples than K are wanted without replacement; on the CPU, outside captured steps,
/// also for weights that are negative or not finite, and for a row of zeros
Tensor multinomial(const Tensor& weights, std::int64_t num_samples, bool replacement = false);

namespace detail {
/// -ln of uniform numbers in (0, 1); the same f32 bits on every device.
Tensor standard_exponential(const Shape& shape, TensorOptions options);
/// Indices of the `count` largest keys of each row, the largest first; equal keys in order. NaN is the largest.
/// Above 32768 keys a GPU sorts them.
/// @param keys [R, K], f32, f64 (no kernel on a GPU) or i64 @return [R, count] i64
Tensor largest_first(const Tensor& keys, std::int64_t count);
}  // namespace detail

}  // namespace etna
