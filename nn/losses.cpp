#include <etna/nn/losses.h>

namespace etna::nn {
namespace {

/// [..., C] as rows.
Tensor rows(const Tensor& x) { return x.dim() == 2 ? x : x.reshape({-1, x.size(-1)}); }

}  // namespace

Tensor CrossEntropyLoss::forward(const Tensor& logits, const Tensor& target) const {
  Tensor loss = cross_entropy(rows(logits), target.reshape({-1}), ignore_index, label_smoothing, reduction);
  return reduction == Reduction::none ? loss.reshape(target.shape()) : loss;
}

Tensor NLLLoss::forward(const Tensor& log_probs, const Tensor& target) const {
  Tensor loss = nll_loss(rows(log_probs), target.reshape({-1}), ignore_index, reduction);
  return reduction == Reduction::none ? loss.reshape(target.shape()) : loss;
}

Tensor MSELoss::forward(const Tensor& x, const Tensor& target) const { return mse_loss(x, target, reduction); }

}  // namespace etna::nn
