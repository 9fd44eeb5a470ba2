#include <fmt/format.h>

#include <etna/tensor/op.h>
#include <etna/tensor/ops/loss/internal/reduction.h>

// cross_entropy and nll_loss with class weights and with probabilities as targets.
namespace etna {
namespace {

using namespace loss;

void require_weight(const char* op, const Tensor& weight, std::int64_t classes) {
  if (weight.defined() && weight.shape() != Shape{classes}) {
    throw ShapeError(
        fmt::format("{}: weight is {}, wanted [{}], one for each class", op, str(weight.shape()), classes));
  }
}

/// Reshapes [N, C, ...] or [C] to [rows, C], with the classes last.
Tensor classes_last(const char* op, const Tensor& x) {
  if (x.dim() == 0) throw ShapeError(fmt::format("{}: got a 0-d tensor, wanted [N, C, ...] or [C]", op));
  if (x.dim() == 1) return x.unsqueeze(0);
  if (x.dim() == 2) return x;
  Dims order = {0};
  for (int i = 2; i < x.dim(); ++i) order.push_back(i);
  order.push_back(1);
  std::int64_t rows = x.size(0);
  for (int i = 2; i < x.dim(); ++i) rows *= x.size(i);
  return x.permute(order).reshape({rows, x.size(1)});
}

/// The shape without the dimension of classes.
Shape without_classes(const Tensor& x) {
  Shape shape;
  for (int i = 0; i < x.dim(); ++i) {
    if (i != 1 && x.dim() > 1) shape.push_back(x.shape()[i]);
  }
  return shape;
}

/// The losses of rows of log-probabilities, and the weights whose sum the mean divides by.
struct WeightedRows {
  Tensor losses, weights;
};

WeightedRows picked_rows(const char* op, const Tensor& given, const Tensor& log_probs, const Tensor& target,
                         const Tensor& weight, std::int64_t ignore_index, double smoothing) {
  require_classes(op, target);
  if (target.shape() != without_classes(given)) {
    throw ShapeError(fmt::format("{}: got {} and targets {}, wanted [N, C, ...] and [N, ...]", op, str(given.shape()),
                                 str(target.shape())));
  }
  const std::int64_t rows = log_probs.size(0), classes = log_probs.size(1);
  const Tensor labels = target.reshape({rows}), counts = ne(labels, static_cast<double>(ignore_index));
  const Tensor index = where(counts, labels, 0.0);
  Tensor weights = counts.to(log_probs.dtype());
  if (weight.defined()) weights = weights * index_select(weight.to(log_probs.dtype()), 0, index);
  Tensor losses = -(gather(log_probs, 1, index.unsqueeze(1)).squeeze(1) * weights);
  if (smoothing != 0) {
    const Tensor all = weight.defined() ? log_probs * weight.to(log_probs.dtype()) : log_probs;
    const Tensor smooth = sum(all, {1}) * counts.to(log_probs.dtype()) / static_cast<double>(classes);
    losses = losses * (1 - smoothing) - smooth * smoothing;
  }
  // Without this, an ignored row with an infinite loss would give NaN.
  return {masked_fill(losses, logical_not(counts), 0.0), weights};
}

Tensor class_weights_reduced_rows(const WeightedRows& rows, const Tensor& given, Reduction reduction) {
  if (reduction == Reduction::mean) return sum(rows.losses) / sum(rows.weights);
  if (reduction == Reduction::sum) return sum(rows.losses);
  return rows.losses.reshape(without_classes(given));
}

}  // namespace

Tensor cross_entropy(const Tensor& logits, const Tensor& target, const Tensor& weight, std::int64_t ignore_index,
                     double label_smoothing, Reduction reduction) {
  constexpr const char* op = "cross_entropy";
  detail::require_defined(op, logits, target);
  const bool soft = is_floating(target.dtype());
  if (soft && target.shape() != logits.shape()) {
    throw DtypeError(fmt::format(
        "{}: got logits {} and {} targets {}; class indices are i64 or i32, probabilities have the shape of the logits",
        op, str(logits.shape()), name(target.dtype()), str(target.shape())));
  }
  if (!soft && !weight.defined()) return cross_entropy(logits, target, ignore_index, label_smoothing, reduction);
  if (!(label_smoothing >= 0 && label_smoothing <= 1))
    throw ShapeError(fmt::format("{}: label_smoothing is {}, it must lie in [0, 1]", op, label_smoothing));
  Tensor x = classes_last(op, widened(op, logits));
  if (!soft && target.numel() == x.size(0)) {
    // The gradient of log_softmax() would be NaN for an ignored row that is not finite.
    const Tensor counts = ne(target.reshape({x.size(0), 1}), static_cast<double>(ignore_index));
    x = where(counts, x, 0.0);
  }
  const Tensor log_probs = log_softmax(x, 1);
  require_weight(op, weight, x.size(1));
  if (!soft) {
    return class_weights_reduced_rows(picked_rows(op, logits, log_probs, target, weight, ignore_index, label_smoothing),
                                      logits, reduction);
  }
  const double classes = static_cast<double>(x.size(1));
  Tensor shares = classes_last(op, target.to(x.dtype()));
  if (label_smoothing != 0) shares = shares * (1 - label_smoothing) + label_smoothing / classes;
  if (weight.defined()) shares = shares * weight.to(x.dtype());
  const Tensor losses = -sum(log_probs * shares, {1});
  return reduced(reduction == Reduction::none ? losses.reshape(without_classes(logits)) : losses, reduction,
                 losses.dtype());
}

Tensor nll_loss(const Tensor& log_probs, const Tensor& target, const Tensor& weight, std::int64_t ignore_index,
                Reduction reduction) {
  constexpr const char* op = "nll_loss";
  const Tensor x = classes_last(op, widened(op, log_probs));
  require_weight(op, weight, x.size(1));
  const Tensor loss =
      class_weights_reduced_rows(picked_rows(op, log_probs, x, target, weight, ignore_index, 0), log_probs, reduction);
  return loss.to(result_dtype(log_probs));
}

}  // namespace etna
