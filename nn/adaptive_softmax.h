#pragma once

#include <vector>

#include <etna/nn/containers.h>
#include <etna/nn/linear.h>

namespace etna::nn {

struct AdaptiveLogSoftmaxOutput {
  Tensor output;  ///< [N]: the log-probability of each target
  Tensor loss;    ///< [], the mean of -output
};

/// log_softmax for many classes in the order of their frequency (Grave et al. 2017): the head knows the classes below
/// cutoffs[0] and one cluster for each range of rarer ones, cutoffs[i] ... cutoffs[i + 1] - 1, whose tail has
/// in_features / div_value^(i + 1) features. Parameters have PyTorch's names: head.weight, tail.0.0.weight, ...
///
/// Every tail computes every row, and rows of other clusters are ignored. PyTorch picks rows instead: less work, but
/// the host would have to wait for the device, and a captured step could not contain it.
class AdaptiveLogSoftmaxWithLoss : public Module {
 public:
  /// @param cutoffs rising, in [1, n_classes - 1] @throws Error, ShapeError
  AdaptiveLogSoftmaxWithLoss(std::int64_t in_features, std::int64_t n_classes, std::vector<std::int64_t> cutoffs,
                             double div_value = 4, bool head_bias = false);
  /// @param x [N, in_features] or [in_features] @param target [N] or [] i64 or i32 in [0, n_classes)
  AdaptiveLogSoftmaxOutput forward(const Tensor& x, const Tensor& target) const;
  AdaptiveLogSoftmaxOutput operator()(const Tensor& x, const Tensor& target) const;
  /// @param x [N, in_features] @return [N, n_classes]: the log-probabilities of all classes
  Tensor log_prob(const Tensor& x) const;
  /// @return [N] i64: the most probable classes
  Tensor predict(const Tensor& x) const;

  const std::int64_t in_features, n_classes;
  const std::vector<std::int64_t> cutoffs;  ///< with n_classes at the end
  const double div_value;
  Linear head;
  ModuleList<Sequential> tail;

 protected:
  std::unique_ptr<Module> another() const override;

 private:
  std::int64_t shortlist() const { return cutoffs.front(); }
};

}  // namespace etna::nn
