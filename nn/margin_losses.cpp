#include <etna/nn/losses.h>

namespace etna::nn {

MarginRankingLoss::MarginRankingLoss(double margin, Reduction reduction) : margin(margin), reduction(reduction) {}

Tensor MarginRankingLoss::forward(const Tensor& x1, const Tensor& x2, const Tensor& target) const {
  return margin_ranking_loss(x1, x2, target, margin, reduction);
}

std::unique_ptr<Module> MarginRankingLoss::another() const {
  return std::make_unique<MarginRankingLoss>(margin, reduction);
}

HingeEmbeddingLoss::HingeEmbeddingLoss(double margin, Reduction reduction) : margin(margin), reduction(reduction) {}

Tensor HingeEmbeddingLoss::forward(const Tensor& x, const Tensor& target) const {
  return hinge_embedding_loss(x, target, margin, reduction);
}

std::unique_ptr<Module> HingeEmbeddingLoss::another() const {
  return std::make_unique<HingeEmbeddingLoss>(margin, reduction);
}

SoftMarginLoss::SoftMarginLoss(Reduction reduction) : reduction(reduction) {}

Tensor SoftMarginLoss::forward(const Tensor& x, const Tensor& target) const {
  return soft_margin_loss(x, target, reduction);
}

std::unique_ptr<Module> SoftMarginLoss::another() const { return std::make_unique<SoftMarginLoss>(reduction); }

MultiMarginLoss::MultiMarginLoss(Tensor weight, int p, double margin, Reduction reduction)
    : weight(std::move(weight)), p(p), margin(margin), reduction(reduction) {
  register_buffer("weight", &MultiMarginLoss::weight);
}

Tensor MultiMarginLoss::forward(const Tensor& x, const Tensor& target) const {
  return multi_margin_loss(x, target, p, margin, weight, reduction);
}

std::unique_ptr<Module> MultiMarginLoss::another() const {
  return std::make_unique<MultiMarginLoss>(weight, p, margin, reduction);
}

MultiLabelMarginLoss::MultiLabelMarginLoss(Reduction reduction) : reduction(reduction) {}

Tensor MultiLabelMarginLoss::forward(const Tensor& x, const Tensor& target) const {
  return multilabel_margin_loss(x, target, reduction);
}

std::unique_ptr<Module> MultiLabelMarginLoss::another() const {
  return std::make_unique<MultiLabelMarginLoss>(reduction);
}

MultiLabelSoftMarginLoss::MultiLabelSoftMarginLoss(Tensor weight, Reduction reduction)
    : weight(std::move(weight)), reduction(reduction) {
  register_buffer("weight", &MultiLabelSoftMarginLoss::weight);
}

Tensor MultiLabelSoftMarginLoss::forward(const Tensor& x, const Tensor& target) const {
  return multilabel_soft_margin_loss(x, target, weight, reduction);
}

std::unique_ptr<Module> MultiLabelSoftMarginLoss::another() const {
  return std::make_unique<MultiLabelSoftMarginLoss>(weight, reduction);
}

CosineEmbeddingLoss::CosineEmbeddingLoss(double margin, Reduction reduction) : margin(margin), reduction(reduction) {}

Tensor CosineEmbeddingLoss::forward(const Tensor& x1, const Tensor& x2, const Tensor& target) const {
  return cosine_embedding_loss(x1, x2, target, margin, reduction);
}

std::unique_ptr<Module> CosineEmbeddingLoss::another() const {
  return std::make_unique<CosineEmbeddingLoss>(margin, reduction);
}

TripletMarginLoss::TripletMarginLoss(double margin, double p, double eps, bool swap, Reduction reduction)
    : margin(margin), p(p), eps(eps), swap(swap), reduction(reduction) {}

Tensor TripletMarginLoss::forward(const Tensor& anchor, const Tensor& positive, const Tensor& negative) const {
  return triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap, reduction);
}

std::unique_ptr<Module> TripletMarginLoss::another() const {
  return std::make_unique<TripletMarginLoss>(margin, p, eps, swap, reduction);
}

TripletMarginWithDistanceLoss::TripletMarginWithDistanceLoss(DistanceFunction distance, double margin, bool swap,
                                                             Reduction reduction)
    : distance(std::move(distance)), margin(margin), swap(swap), reduction(reduction) {}

Tensor TripletMarginWithDistanceLoss::forward(const Tensor& anchor, const Tensor& positive,
                                              const Tensor& negative) const {
  return triplet_margin_with_distance_loss(anchor, positive, negative, distance, margin, swap, reduction);
}

std::unique_ptr<Module> TripletMarginWithDistanceLoss::another() const {
  return std::make_unique<TripletMarginWithDistanceLoss>(distance, margin, swap, reduction);
}

CosineSimilarity::CosineSimilarity(std::int64_t dim, double eps) : dim(dim), eps(eps) {}

Tensor CosineSimilarity::forward(const Tensor& x1, const Tensor& x2) const {
  return cosine_similarity(x1, x2, dim, eps);
}

std::unique_ptr<Module> CosineSimilarity::another() const { return std::make_unique<CosineSimilarity>(dim, eps); }

PairwiseDistance::PairwiseDistance(double p, double eps, bool keepdim) : p(p), eps(eps), keepdim(keepdim) {}

Tensor PairwiseDistance::forward(const Tensor& x1, const Tensor& x2) const {
  return pairwise_distance(x1, x2, p, eps, keepdim);
}

std::unique_ptr<Module> PairwiseDistance::another() const {
  return std::make_unique<PairwiseDistance>(p, eps, keepdim);
}

CDist::CDist(double p) : p(p) {}

Tensor CDist::forward(const Tensor& x1, const Tensor& x2) const { return cdist(x1, x2, p); }

std::unique_ptr<Module> CDist::another() const { return std::make_unique<CDist>(p); }

}  // namespace etna::nn
