#pragma once

#include <cstdint>

#include <etna/tensor/tensor.h>

namespace etna::nn {

struct NeuralCacheOptions {
  std::int64_t window = 2000;  ///< words that are remembered
  double theta = 0.66;         ///< how sharply the cache prefers words whose contexts were alike
  double lambda = 0.13;        ///< the cache's share of a probability
};

/// Remembers the last words of a text and the hidden states that came before them, and adds to a model's probability of
/// a word how alike the states were before its recent occurrences (Grave et al. 2017):
///     p(w) = (1 - lambda) · softmax(logits)(w) + lambda · sum over i with w_i = w of softmax(theta · h·h_i)(i)
/// Needs no training. For evaluation: has no gradient.
class NeuralCache {
 public:
  /// @param dim of hidden states @throws Error for window < 1, lambda outside [0, 1), a theta that is not finite
  NeuralCache(std::int64_t dim, const NeuralCacheOptions& options, Device device);

  /// @param hidden [T, dim] of one text, in order, which goes on where the last call ended
  /// @param logits [T, V] @param words [T] i32 or i64, the words that follow each position
  /// @return [T], the natural logarithm of each word's probability. Words before it in the same call count already.
  Tensor log_likelihood(const Tensor& hidden, const Tensor& logits, const Tensor& words);
  /// Forgets.
  void clear();

  const NeuralCacheOptions options;

 private:
  Tensor states_;  ///< [window, dim] f32, oldest first
  Tensor words_;   ///< [window] i64; -1: none yet
};

}  // namespace etna::nn
