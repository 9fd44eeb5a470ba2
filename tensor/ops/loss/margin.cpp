#include <fmt/format.h>

#include <etna/tensor/op.h>
#include <etna/tensor/ops/loss/internal/reduction.h>

// Losses that are 0 beyond a margin.
namespace etna {
namespace {

using namespace loss;

/// [N, C] from [N, C] or [C].
Tensor margin_as_rows(const char* op, const Tensor& x) {
  if (x.dim() == 2) return x;
  if (x.dim() != 1) throw ShapeError(fmt::format("{}: x is {}, wanted [N, C] or [C]", op, str(x.shape())));
  return x.unsqueeze(0);
}

/// Reduces losses [N] to the caller's shape: unreduced, one row without N gives [].
Tensor margin_reduced_rows(const Tensor& losses, const Tensor& given, Reduction reduction) {
  const bool one = given.dim() == 1;
  return reduced(one ? losses.reshape({}) : losses, reduction, result_dtype(given));
}

/// The triplet loss of inputs that are already checked and converted.
template <typename Distance>
Tensor triplet(const Tensor& anchor, const Tensor& positive, const Tensor& negative, const Distance& distance,
               double margin, bool swap, Reduction reduction, DType dtype) {
  const Tensor near = distance(anchor, positive);
  Tensor far = distance(anchor, negative);
  if (swap) far = minimum(far, distance(positive, negative));
  return reduced(clamp(near - far + margin, 0.0, {}), reduction, dtype);
}

}  // namespace

Tensor margin_ranking_loss(const Tensor& x1, const Tensor& x2, const Tensor& target, double margin,
                           Reduction reduction) {
  constexpr const char* op = "margin_ranking_loss";
  require_same(op, x1, x2);
  require_same(op, x1, target);
  const Tensor a = widened(op, x1), b = widened(op, x2).to(a.dtype());
  return reduced(clamp(margin - target.to(a.dtype()) * (a - b), 0.0, {}), reduction, result_dtype(x1));
}

Tensor hinge_embedding_loss(const Tensor& given, const Tensor& target, double margin, Reduction reduction) {
  constexpr const char* op = "hinge_embedding_loss";
  require_same(op, given, target);
  const Tensor x = widened(op, given);
  const Tensor far = where(ne(target, 1.0), clamp(margin - x, 0.0, {}), 0.0);
  return reduced(far + where(ne(target, -1.0), x, 0.0), reduction, result_dtype(given));
}

Tensor soft_margin_loss(const Tensor& given, const Tensor& target, Reduction reduction) {
  constexpr const char* op = "soft_margin_loss";
  require_same(op, given, target);
  const Tensor x = widened(op, given);
  return reduced(softplus(-(target.to(x.dtype()) * x)), reduction, result_dtype(given));
}

Tensor multi_margin_loss(const Tensor& given, const Tensor& target, int p, double margin, const Tensor& weight,
                         Reduction reduction) {
  constexpr const char* op = "multi_margin_loss";
  require_classes(op, target);
  if (p != 1 && p != 2) throw Error(fmt::format("{}: p is {}, it must be 1 or 2", op, p));
  const Tensor x = margin_as_rows(op, widened(op, given));
  const Shape wanted = given.dim() == 1 ? Shape{} : Shape{x.size(0)};
  if (target.shape() != wanted && !(given.dim() == 1 && target.numel() == 1)) {
    throw ShapeError(
        fmt::format("{}: x is {} and target {}, wanted [N, C] and [N]", op, str(given.shape()), str(target.shape())));
  }
  const Tensor index = target.reshape({x.size(0), 1}), own = gather(x, 1, index);
  Tensor terms = clamp(x - own + margin, 0.0, {});
  if (p == 2) terms = square(terms);
  // The target's own class does not count.
  const Tensor ones = etna::ones({x.size(0), 1}, {x.dtype(), x.device()});
  const Tensor others = 1.0 - scatter_add(zeros(x.shape(), {x.dtype(), x.device()}), 1, index, ones);
  Tensor losses = sum(terms * others, {1}) / static_cast<double>(x.size(1));
  if (weight.defined()) {
    if (weight.shape() != Shape{x.size(1)}) {
      throw ShapeError(fmt::format("{}: weight is {}, wanted [{}]", op, str(weight.shape()), x.size(1)));
    }
    losses = losses * index_select(weight.to(x.dtype()), 0, index.reshape({x.size(0)}));
  }
  return margin_reduced_rows(losses, given, reduction);
}

Tensor multilabel_margin_loss(const Tensor& given, const Tensor& target, Reduction reduction) {
  constexpr const char* op = "multilabel_margin_loss";
  require_classes(op, target);
  require_same(op, given, target);
  const Tensor x = margin_as_rows(op, widened(op, given)), labels = target.reshape(x.shape());
  const TensorOptions options{x.dtype(), x.device()};
  // Labels before the first negative one count.
  const Tensor ends = cumsum((labels < 0.0).to(x.dtype()), 1), counts = ends == 0.0;
  const Tensor index = where(counts, labels, 0.0), valid = counts.to(x.dtype());
  const Tensor others = (scatter_add(zeros(x.shape(), options), 1, index, valid) == 0.0).to(x.dtype());
  const Tensor own = gather(x, 1, index);
  const Tensor terms = clamp(1.0 - own.unsqueeze(2) + x.unsqueeze(1), 0.0, {});
  const Tensor kept = terms * valid.unsqueeze(2) * others.unsqueeze(1);
  return margin_reduced_rows(sum(kept, {1, 2}) / static_cast<double>(x.size(1)), given, reduction);
}

Tensor multilabel_soft_margin_loss(const Tensor& given, const Tensor& target, const Tensor& weight,
                                   Reduction reduction) {
  constexpr const char* op = "multilabel_soft_margin_loss";
  require_same(op, given, target);
  if (given.dim() == 0) throw ShapeError("multilabel_soft_margin_loss: x is 0-d, wanted [..., C]");
  const Tensor x = widened(op, given), losses = softplus(x) - target.to(x.dtype()) * x;
  return reduced(mean(weighted(op, losses, weight), {-1}), reduction, result_dtype(given));
}

Tensor cosine_embedding_loss(const Tensor& x1, const Tensor& x2, const Tensor& target, double margin,
                             Reduction reduction) {
  constexpr const char* op = "cosine_embedding_loss";
  require_same(op, x1, x2);
  const Tensor a = widened(op, x1), b = widened(op, x2).to(a.dtype());
  if ((a.dim() != 1 && a.dim() != 2) || target.dim() != a.dim() - 1 || (a.dim() == 2 && target.size(0) != a.size(0))) {
    throw ShapeError(fmt::format("{}: got {} and target {}, wanted [N, D] and [N], or [D] and []", op, str(x1.shape()),
                                 str(target.shape())));
  }
  const auto unit = [](const Tensor& x) { return x / hypot(vector_norm(x, 2, {-1}, true), 1e-6); };
  const Tensor cosine = sum(unit(a) * unit(b), {-1});
  const Tensor unlike = where(eq(target, -1.0), clamp(cosine - margin, 0.0, {}), 0.0);
  return reduced(where(eq(target, 1.0), 1.0 - cosine, unlike), reduction, result_dtype(x1));
}

Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative, double margin,
                           double p, double eps, bool swap, Reduction reduction) {
  constexpr const char* op = "triplet_margin_loss";
  require_same(op, anchor, positive);
  require_same(op, anchor, negative);
  const Tensor a = widened(op, anchor), b = widened(op, positive), c = widened(op, negative);
  return triplet(
      a, b, c, [&](const Tensor& x, const Tensor& y) { return norm_of_last(op, x - y + eps, p, false); }, margin, swap,
      reduction, result_dtype(anchor));
}

Tensor triplet_margin_with_distance_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                                         const DistanceFunction& distance, double margin, bool swap,
                                         Reduction reduction) {
  constexpr const char* op = "triplet_margin_with_distance_loss";
  require_same(op, anchor, positive);
  require_same(op, anchor, negative);
  const Tensor a = widened(op, anchor), b = widened(op, positive), c = widened(op, negative);
  const auto usual = [](const Tensor& x, const Tensor& y) { return pairwise_distance(x, y); };
  return triplet(a, b, c, distance ? distance : DistanceFunction(usual), margin, swap, reduction, result_dtype(anchor));
}

}  // namespace etna
