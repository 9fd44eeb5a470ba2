#pragma once

#include <utility>

#include <etna/nn/module.h>
#include <etna/tensor/ops/loss/loss.h>

/// Losses with a margin, and distances, as modules that store their settings: <etna/tensor/ops/loss/loss.h>.
namespace etna::nn {

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
