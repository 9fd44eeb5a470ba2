#include <etna/nn/lstm_language_model.h>

#include <cmath>

#include <fmt/format.h>

#include <etna/tensor/op.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/reduce/reduce.h>

namespace etna::nn {

NeuralCache::NeuralCache(std::int64_t dim, const NeuralCacheOptions& options, Device device) : options(options) {
  if (options.window < 1) throw Error(fmt::format("NeuralCache: window is {}; it must be at least 1", options.window));
  if (!(options.lambda >= 0 && options.lambda < 1))
    throw Error(fmt::format("NeuralCache: lambda is {}; it must be in [0, 1)", options.lambda));
  if (!std::isfinite(options.theta)) throw Error(fmt::format("NeuralCache: theta is {}", options.theta));
  states_ = zeros({options.window, dim}, {f32, device});
  words_ = full({options.window}, -1, {i64, device});
}

void NeuralCache::clear() {
  states_.zero_();
  words_.fill_(-1);
}

Tensor NeuralCache::log_likelihood(const Tensor& hidden, const Tensor& logits, const Tensor& words) {
  const std::int64_t steps = hidden.dim() == 2 ? hidden.size(0) : -1;
  if (steps < 1 || hidden.size(1) != states_.size(1) || logits.dim() != 2 || logits.size(0) != steps ||
      words.shape() != Shape{steps}) {
    throw ShapeError(fmt::format("NeuralCache: hidden {}, logits {} and words {} should be [T, {}], [T, V] and [T]",
                                 str(hidden.shape()), str(logits.shape()), str(words.shape()), states_.size(1)));
  }
  const GradMode off(false);
  const Tensor next = words.to(i64);
  const Tensor all_states = cat({states_, hidden.to(f32)}, 0), all_words = cat({words_, next}, 0);
  const Tensor by_model = log_softmax(logits.to(f32), -1).gather(1, next.unsqueeze(1)).squeeze(1);
  // Position t looks at the window of words before it: columns t to t + window - 1.
  const Tensor column = arange(options.window + steps, {i64, hidden.device()}).unsqueeze(0),
               row = arange(steps, {i64, hidden.device()}).unsqueeze(1);
  const Tensor seen = (column >= row) & (column < row + options.window) & (all_words >= 0).unsqueeze(0);
  const Tensor scores = (matmul(hidden.to(f32), all_states.transpose(0, 1)) * options.theta).masked_fill(~seen, -1e30);
  const Tensor same = seen & (all_words.unsqueeze(0) == next.unsqueeze(1));
  const Tensor weights = exp(scores - amax(scores, 1, true)) * seen.to(f32), total = weights.sum(1);
  const Tensor by_cache = (weights * same.to(f32)).sum(1) / clamp(total, 1e-30, {});
  states_.copy_(all_states.slice(0, steps, steps + options.window));
  words_.copy_(all_words.slice(0, steps, steps + options.window));
  const Tensor both = logaddexp(by_model + std::log1p(-options.lambda), log(by_cache * options.lambda));
  return where(total > 0, both, by_model);  // before the first word, the cache says nothing
}

}  // namespace etna::nn
