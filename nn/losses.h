#pragma once

#include <utility>

#include <etna/nn/module.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/loss/loss.h>

/// Losses and distances as modules that store their settings. The function forms are those of <etna/tensor/ops.h> and
/// <etna/tensor/ops/loss/loss.h>.
namespace etna::nn {

/// -log softmax(logits)[target], averaged. Rows whose target is ignore_index count neither in the sum nor in the mean.
class CrossEntropyLoss : public Module {
 public:
  explicit CrossEntropyLoss(std::int64_t ignore_index = -100, double label_smoothing = 0,
                            Reduction reduction = Reduction::mean);
  /// @param weight [C], one for each class; a buffer, so it moves with the module
  explicit CrossEntropyLoss(Tensor weight, std::int64_t ignore_index = -100, double label_smoothing = 0,
                            Reduction reduction = Reduction::mean);
  /// Layouts as of cross_entropy(): the classes are dimension 1.
  /// @param logits [N, C, ...] @param target [N, ...] i64 or i32, or probabilities [N, C, ...]
  /// @return 0-d, or [N, ...] if reduction is none
  Tensor forward(const Tensor& logits, const Tensor& target) const;
  Tensor operator()(const Tensor& logits, const Tensor& target) const { return forward(logits, target); }

  Tensor weight;
  std::int64_t ignore_index;
  double label_smoothing;
  Reduction reduction;

 protected:
  std::unique_ptr<Module> another() const override;
};

/// -log_probs[target], averaged.
class NLLLoss : public Module {
 public:
  explicit NLLLoss(std::int64_t ignore_index = -100, Reduction reduction = Reduction::mean);
  /// @param weight [C], one for each class; a buffer, so it moves with the module
  explicit NLLLoss(Tensor weight, std::int64_t ignore_index = -100, Reduction reduction = Reduction::mean);
  /// @param log_probs [N, C, ...] @param target [N, ...] i64 or i32 @return 0-d, or [N, ...] if reduction is none
  Tensor forward(const Tensor& log_probs, const Tensor& target) const;
  Tensor operator()(const Tensor& log_probs, const Tensor& target) const { return forward(log_probs, target); }

  Tensor weight;
  std::int64_t ignore_index;
  Reduction reduction;

 protected:
  std::unique_ptr<Module> another() const override;
};

/// (x - target)², averaged.
class MSELoss : public Module {
 public:
  explicit MSELoss(Reduction reduction = Reduction::mean);
  Tensor forward(const Tensor& x, const Tensor& target) const;
  Tensor operator()(const Tensor& x, const Tensor& target) const { return forward(x, target); }

  Reduction reduction;

 protected:
  std::unique_ptr<Module> another() const override;
};

/// binary_cross_entropy() with its settings.
/// Weights are buffers: they move with the module.
class BCELoss : public Module {
 public:
  explicit BCELoss(Tensor weight = {}, Reduction reduction = Reduction::mean);
  Tensor forward(const Tensor& x, const Tensor& target) const {
    return binary_cross_entropy(x, target, weight, reduction);
  }
  Tensor operator()(const Tensor& x, const Tensor& target) const { return forward(x, target); }

  Tensor weight;
  Reduction reduction;

 protected:
  std::unique_ptr<Module> another() const override;
};

/// binary_cross_entropy_with_logits() with its settings.
/// Weights are buffers: they move with the module.
class BCEWithLogitsLoss : public Module {
 public:
  explicit BCEWithLogitsLoss(Tensor weight = {}, Tensor pos_weight = {}, Reduction reduction = Reduction::mean);
  Tensor forward(const Tensor& x, const Tensor& target) const {
    return binary_cross_entropy_with_logits(x, target, weight, reduction, pos_weight);
  }
  Tensor operator()(const Tensor& x, const Tensor& target) const { return forward(x, target); }

  Tensor weight;
  Tensor pos_weight;
  Reduction reduction;

 protected:
  std::unique_ptr<Module> another() const override;
};

/// sigmoid_focal_loss() with its settings.
class SigmoidFocalLoss : public Module {
 public:
  explicit SigmoidFocalLoss(double alpha = 0.25, double gamma = 2, Reduction reduction = Reduction::none);
  Tensor forward(const Tensor& x, const Tensor& target) const {
    return sigmoid_focal_loss(x, target, alpha, gamma, reduction);
  }
  Tensor operator()(const Tensor& x, const Tensor& target) const { return forward(x, target); }

  double alpha;
  double gamma;
  Reduction reduction;

 protected:
  std::unique_ptr<Module> another() const override;
};

/// dice_loss() with its settings.
class DiceLoss : public Module {
 public:
  explicit DiceLoss(double smooth = 1, Reduction reduction = Reduction::mean);
  Tensor forward(const Tensor& x, const Tensor& target) const { return dice_loss(x, target, smooth, reduction); }
  Tensor operator()(const Tensor& x, const Tensor& target) const { return forward(x, target); }

  double smooth;
  Reduction reduction;

 protected:
  std::unique_ptr<Module> another() const override;
};

/// kl_div() with its settings.
class KLDivLoss : public Module {
 public:
  explicit KLDivLoss(KLReduction reduction = KLReduction::mean, bool log_target = false);
  Tensor forward(const Tensor& x, const Tensor& target) const { return kl_div(x, target, reduction, log_target); }
  Tensor operator()(const Tensor& x, const Tensor& target) const { return forward(x, target); }

  KLReduction reduction;
  bool log_target;

 protected:
  std::unique_ptr<Module> another() const override;
};

/// |x - target|, averaged.
class L1Loss : public Module {
 public:
  explicit L1Loss(Reduction reduction = Reduction::mean);
  Tensor forward(const Tensor& x, const Tensor& target) const { return l1_loss(x, target, reduction); }
  Tensor operator()(const Tensor& x, const Tensor& target) const { return forward(x, target); }

  Reduction reduction;

 protected:
  std::unique_ptr<Module> another() const override;
};

/// smooth_l1_loss() with its settings.
class SmoothL1Loss : public Module {
 public:
  explicit SmoothL1Loss(Reduction reduction = Reduction::mean, double beta = 1);
  Tensor forward(const Tensor& x, const Tensor& target) const { return smooth_l1_loss(x, target, reduction, beta); }
  Tensor operator()(const Tensor& x, const Tensor& target) const { return forward(x, target); }

  Reduction reduction;
  double beta;

 protected:
  std::unique_ptr<Module> another() const override;
};

/// huber_loss() with its settings.
class HuberLoss : public Module {
 public:
  explicit HuberLoss(Reduction reduction = Reduction::mean, double delta = 1);
  Tensor forward(const Tensor& x, const Tensor& target) const { return huber_loss(x, target, reduction, delta); }
  Tensor operator()(const Tensor& x, const Tensor& target) const { return forward(x, target); }

  Reduction reduction;
  double delta;

 protected:
  std::unique_ptr<Module> another() const override;
};

/// gaussian_nll_loss() with its settings.
class GaussianNLLLoss : public Module {
 public:
  explicit GaussianNLLLoss(bool full = false, double eps = 1e-6, Reduction reduction = Reduction::mean);
  Tensor forward(const Tensor& x, const Tensor& target, const Tensor& var) const {
    return gaussian_nll_loss(x, target, var, full, eps, reduction);
  }
  Tensor operator()(const Tensor& x, const Tensor& target, const Tensor& var) const { return forward(x, target, var); }

  bool full;
  double eps;
  Reduction reduction;

 protected:
  std::unique_ptr<Module> another() const override;
};

/// poisson_nll_loss() with its settings.
class PoissonNLLLoss : public Module {
 public:
  explicit PoissonNLLLoss(bool log_input = true, bool full = false, double eps = 1e-8,
                          Reduction reduction = Reduction::mean);
  Tensor forward(const Tensor& x, const Tensor& target) const {
    return poisson_nll_loss(x, target, log_input, full, eps, reduction);
  }
  Tensor operator()(const Tensor& x, const Tensor& target) const { return forward(x, target); }

  bool log_input;
  bool full;
  double eps;
  Reduction reduction;

 protected:
  std::unique_ptr<Module> another() const override;
};

/// ctc_loss() with its settings.
class CTCLoss : public Module {
 public:
  explicit CTCLoss(std::int64_t blank = 0, Reduction reduction = Reduction::mean, bool zero_infinity = false);
  Tensor forward(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                 const Tensor& target_lengths) const {
    return ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, reduction, zero_infinity);
  }
  Tensor operator()(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                    const Tensor& target_lengths) const {
    return forward(log_probs, targets, input_lengths, target_lengths);
  }

  std::int64_t blank;
  Reduction reduction;
  bool zero_infinity;

 protected:
  std::unique_ptr<Module> another() const override;
};

// ---- with a margin

/// margin_ranking_loss() with its settings.
class MarginRankingLoss : public Module {
 public:
  explicit MarginRankingLoss(double margin = 0, Reduction reduction = Reduction::mean);
  Tensor forward(const Tensor& x1, const Tensor& x2, const Tensor& target) const;
  Tensor operator()(const Tensor& x1, const Tensor& x2, const Tensor& target) const { return forward(x1, x2, target); }

  double margin;
  Reduction reduction;

 protected:
  std::unique_ptr<Module> another() const override;
};

/// hinge_embedding_loss() with its settings.
class HingeEmbeddingLoss : public Module {
 public:
  explicit HingeEmbeddingLoss(double margin = 1, Reduction reduction = Reduction::mean);
  Tensor forward(const Tensor& x, const Tensor& target) const;
  Tensor operator()(const Tensor& x, const Tensor& target) const { return forward(x, target); }

  double margin;
  Reduction reduction;

 protected:
  std::unique_ptr<Module> another() const override;
};

/// soft_margin_loss() with its settings.
class SoftMarginLoss : public Module {
 public:
  explicit SoftMarginLoss(Reduction reduction = Reduction::mean);
  Tensor forward(const Tensor& x, const Tensor& target) const;
  Tensor operator()(const Tensor& x, const Tensor& target) const { return forward(x, target); }

  Reduction reduction;

 protected:
  std::unique_ptr<Module> another() const override;
};

/// multi_margin_loss() with its settings.
/// Weights are buffers: they move with the module.
class MultiMarginLoss : public Module {
 public:
  explicit MultiMarginLoss(Tensor weight = {}, int p = 1, double margin = 1, Reduction reduction = Reduction::mean);
  Tensor forward(const Tensor& x, const Tensor& target) const;
  Tensor operator()(const Tensor& x, const Tensor& target) const { return forward(x, target); }

  Tensor weight;
  int p;
  double margin;
  Reduction reduction;

 protected:
  std::unique_ptr<Module> another() const override;
};

/// multilabel_margin_loss() with its settings.
class MultiLabelMarginLoss : public Module {
 public:
  explicit MultiLabelMarginLoss(Reduction reduction = Reduction::mean);
  Tensor forward(const Tensor& x, const Tensor& target) const;
  Tensor operator()(const Tensor& x, const Tensor& target) const { return forward(x, target); }

  Reduction reduction;

 protected:
  std::unique_ptr<Module> another() const override;
};

/// multilabel_soft_margin_loss() with its settings.
/// Weights are buffers: they move with the module.
class MultiLabelSoftMarginLoss : public Module {
 public:
  explicit MultiLabelSoftMarginLoss(Tensor weight = {}, Reduction reduction = Reduction::mean);
  Tensor forward(const Tensor& x, const Tensor& target) const;
  Tensor operator()(const Tensor& x, const Tensor& target) const { return forward(x, target); }

  Tensor weight;
  Reduction reduction;

 protected:
  std::unique_ptr<Module> another() const override;
};

/// cosine_embedding_loss() with its settings.
class CosineEmbeddingLoss : public Module {
 public:
  explicit CosineEmbeddingLoss(double margin = 0, Reduction reduction = Reduction::mean);
  Tensor forward(const Tensor& x1, const Tensor& x2, const Tensor& target) const;
  Tensor operator()(const Tensor& x1, const Tensor& x2, const Tensor& target) const { return forward(x1, x2, target); }

  double margin;
  Reduction reduction;

 protected:
  std::unique_ptr<Module> another() const override;
};

/// triplet_margin_loss() with its settings.
class TripletMarginLoss : public Module {
 public:
  explicit TripletMarginLoss(double margin = 1, double p = 2, double eps = 1e-6, bool swap = false,
                             Reduction reduction = Reduction::mean);
  Tensor forward(const Tensor& anchor, const Tensor& positive, const Tensor& negative) const;
  Tensor operator()(const Tensor& anchor, const Tensor& positive, const Tensor& negative) const {
    return forward(anchor, positive, negative);
  }

  double margin;
  double p;
  double eps;
  bool swap;
  Reduction reduction;

 protected:
  std::unique_ptr<Module> another() const override;
};

/// triplet_margin_with_distance_loss() with its settings.
class TripletMarginWithDistanceLoss : public Module {
 public:
  /// @param distance empty: pairwise_distance()
  explicit TripletMarginWithDistanceLoss(DistanceFunction distance = {}, double margin = 1, bool swap = false,
                                         Reduction reduction = Reduction::mean);
  Tensor forward(const Tensor& anchor, const Tensor& positive, const Tensor& negative) const;
  Tensor operator()(const Tensor& anchor, const Tensor& positive, const Tensor& negative) const {
    return forward(anchor, positive, negative);
  }

  DistanceFunction distance;
  double margin;
  bool swap;
  Reduction reduction;

 protected:
  std::unique_ptr<Module> another() const override;
};

// ---- distances

/// cosine_similarity() with its settings.
class CosineSimilarity : public Module {
 public:
  explicit CosineSimilarity(std::int64_t dim = 1, double eps = 1e-8);
  Tensor forward(const Tensor& x1, const Tensor& x2) const;
  Tensor operator()(const Tensor& x1, const Tensor& x2) const { return forward(x1, x2); }

  std::int64_t dim;
  double eps;

 protected:
  std::unique_ptr<Module> another() const override;
};

/// pairwise_distance() with its settings.
class PairwiseDistance : public Module {
 public:
  explicit PairwiseDistance(double p = 2, double eps = 1e-6, bool keepdim = false);
  Tensor forward(const Tensor& x1, const Tensor& x2) const;
  Tensor operator()(const Tensor& x1, const Tensor& x2) const { return forward(x1, x2); }

  double p;
  double eps;
  bool keepdim;

 protected:
  std::unique_ptr<Module> another() const override;
};

/// cdist() with its settings.
class CDist : public Module {
 public:
  explicit CDist(double p = 2);
  Tensor forward(const Tensor& x1, const Tensor& x2) const;
  Tensor operator()(const Tensor& x1, const Tensor& x2) const { return forward(x1, x2); }

  double p;

 protected:
  std::unique_ptr<Module> another() const override;
};

}  // namespace etna::nn
