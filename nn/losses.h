#pragma once

#include <etna/nn/module.h>
#include <etna/tensor/ops.h>

/// Losses as modules that store their settings. The function forms are cross_entropy(), nll_loss() and mse_loss().
namespace etna::nn {

/// -log softmax(logits)[target], averaged. Rows whose target is ignore_index count neither in the sum nor in the mean.
class CrossEntropyLoss : public Module {
 public:
  explicit CrossEntropyLoss(std::int64_t ignore_index = -100, double label_smoothing = 0,
                            Reduction reduction = Reduction::mean)
      : ignore_index(ignore_index), label_smoothing(label_smoothing), reduction(reduction) {}
  /// Layouts as of cross_entropy(): the classes are dimension 1.
  /// @param logits [N, C, ...] @param target [N, ...] i64 or i32 @return 0-d, or [N, ...] if reduction is none
  Tensor forward(const Tensor& logits, const Tensor& target) const;
  Tensor operator()(const Tensor& logits, const Tensor& target) const { return forward(logits, target); }

  std::int64_t ignore_index;
  double label_smoothing;
  Reduction reduction;

 protected:
  std::unique_ptr<Module> another() const override {
    return std::make_unique<CrossEntropyLoss>(ignore_index, label_smoothing, reduction);
  }
};

/// -log_probs[target], averaged.
class NLLLoss : public Module {
 public:
  explicit NLLLoss(std::int64_t ignore_index = -100, Reduction reduction = Reduction::mean)
      : ignore_index(ignore_index), reduction(reduction) {}
  /// @param log_probs [N, C, ...] @param target [N, ...] i64 or i32 @return 0-d, or [N, ...] if reduction is none
  Tensor forward(const Tensor& log_probs, const Tensor& target) const;
  Tensor operator()(const Tensor& log_probs, const Tensor& target) const { return forward(log_probs, target); }

  std::int64_t ignore_index;
  Reduction reduction;

 protected:
  std::unique_ptr<Module> another() const override { return std::make_unique<NLLLoss>(ignore_index, reduction); }
};

/// (x - target)², averaged.
class MSELoss : public Module {
 public:
  explicit MSELoss(Reduction reduction = Reduction::mean) : reduction(reduction) {}
  Tensor forward(const Tensor& x, const Tensor& target) const;
  Tensor operator()(const Tensor& x, const Tensor& target) const { return forward(x, target); }

  Reduction reduction;

 protected:
  std::unique_ptr<Module> another() const override { return std::make_unique<MSELoss>(reduction); }
};

}  // namespace etna::nn
