#include <etna/nn/losses.h>

namespace etna::nn {

Tensor CrossEntropyLoss::forward(const Tensor& logits, const Tensor& target) const {
  return cross_entropy(logits, target, weight, ignore_index, label_smoothing, reduction);
}

Tensor NLLLoss::forward(const Tensor& log_probs, const Tensor& target) const {
  if (!weight.defined()) return nll_loss(log_probs, target, ignore_index, reduction);
  return nll_loss(log_probs, target, weight, ignore_index, reduction);
}

Tensor MSELoss::forward(const Tensor& x, const Tensor& target) const { return mse_loss(x, target, reduction); }

}  // namespace etna::nn
