#include <algorithm>

#include <fmt/format.h>

#include <etna/tensor/autocast.h>
#include <etna/tensor/ops/loss/internal/cross_entropy.h>
#include <etna/tensor/ops/loss/loss.h>

namespace etna {
namespace {

using LossAttrs = loss::CrossEntropyAttrs;

void loss_check_rows(const char* op, const Tensor& x, const Tensor& target) {
  if (!is_floating(x.dtype())) {
    throw DtypeError(
        fmt::format("{}: the first input holds {}, it must be f64, f32, f16 or bf16", op, name(x.dtype())));
  }
  if (target.dtype() != i64 && target.dtype() != i32) {
    throw DtypeError(
        fmt::format("{}: the targets hold {}; class indices must be i64 or i32", op, name(target.dtype())));
  }
  if (x.dim() != 2 || target.dim() != 1 || x.size(0) != target.size(0)) {
    throw ShapeError(
        fmt::format("{}: got {} and targets {}, wanted [N, C] and [N]", op, str(x.shape()), str(target.shape())));
  }
}

/// Reshapes [N, C], [N, C, d...] or [C] to two dimensions with the classes last.
struct ClassRows {
  Tensor x;       ///< [rows, C]
  Tensor target;  ///< [rows]
};

ClassRows class_rows(const char* op, const Tensor& x, const Tensor& target) {
  if (x.dim() == 2) return {x, target};
  Shape wanted;
  for (int i = 0; i < x.dim(); ++i) {
    if (i != 1 && x.dim() > 1) wanted.push_back(x.shape()[i]);
  }
  if (x.dim() == 0 || target.shape() != wanted) {
    // Classes last: the layout of a transformer's logits.
    const bool last =
        x.dim() == target.dim() + 1 && std::equal(target.shape().begin(), target.shape().end(), x.shape().begin());
    throw ShapeError(fmt::format(
        "{}: got {} and targets {}, wanted [N, C, ...] and [N, ...]{}", op, str(x.shape()), str(target.shape()),
        last ? "; with the classes in the last dimension, reshape to {-1, C} and {-1} first" : ""));
  }
  if (x.dim() == 1) return {x.unsqueeze(0), target.reshape({1})};
  Dims classes_last = {0};
  for (int i = 2; i < x.dim(); ++i) classes_last.push_back(i);
  classes_last.push_back(1);
  return {x.permute(classes_last).reshape({target.numel(), x.size(1)}), target.reshape({target.numel()})};
}

std::vector<OutputSpec> cross_entropy_infer(const OpCall& call) {
  const Tensor &logits = call.in[0], &target = call.in[1];
  auto attributes = call.as<LossAttrs>();
  loss_check_rows("cross_entropy", logits, target);
  if (!(attributes.label_smoothing >= 0 && attributes.label_smoothing <= 1)) {
    throw ShapeError(
        fmt::format("cross_entropy: label_smoothing is {}, it must lie in [0, 1]", attributes.label_smoothing));
  }
  DType sums = loss::sum_dtype(logits.dtype());
  Shape loss = attributes.reduction == Reduction::none ? target.shape() : Shape{};
  return {{loss, sums}, {target.shape(), sums}, {{1}, sums}};
}

std::vector<OutputSpec> cross_entropy_backward_infer(const OpCall& call) {
  return {{call.in[0].shape(), call.in[0].dtype()}};
}

/// The target distribution per row and class, 0 in ignored rows, in the dtype of the sums.
Tensor target_distribution(const Tensor& logits, const Tensor& target, const LossAttrs& attributes,
                           const Tensor& counts) {
  std::int64_t n = logits.size(0), classes = logits.size(1);
  TensorOptions options{loss::sum_dtype(logits.dtype()), logits.device()};
  Tensor index = where(counts, target, 0.0).unsqueeze(1);
  Tensor one_hot = scatter_add(zeros({n, classes}, options), 1, index, ones({n, 1}, options));
  double smoothing = attributes.label_smoothing;
  Tensor smoothed = one_hot * (1.0 - smoothing) + smoothing / static_cast<double>(classes);
  return masked_fill(smoothed, logical_not(counts).unsqueeze(1), 0.0);
}

TensorList cross_entropy_reference(const OpCall& call) {
  const Tensor &logits = call.in[0], &target = call.in[1];
  auto attributes = call.as<LossAttrs>();
  DType sums = loss::sum_dtype(logits.dtype());
  Tensor x = logits.to(sums), counts = ne(target, static_cast<double>(attributes.ignore_index));
  Tensor index = where(counts, target, 0.0).unsqueeze(1), log_probs = log_softmax(x, 1);
  Tensor losses = -gather(log_probs, 1, index).squeeze(1);
  if (attributes.label_smoothing != 0) {
    losses = losses * (1.0 - attributes.label_smoothing) - mean(log_probs, {1}) * attributes.label_smoothing;
  }
  losses = masked_fill(losses, logical_not(counts), 0.0);
  Tensor count = sum(counts.to(sums)).reshape({1});
  Tensor loss = losses;
  if (attributes.reduction == Reduction::sum) loss = sum(losses);
  if (attributes.reduction == Reduction::mean) loss = sum(losses) / count.reshape({});
  return {loss, logsumexp(x, {1}), count};
}

/// Uses logits and gradient only, not what forward saved, so that it can be differentiated.
TensorList cross_entropy_backward_reference(const OpCall& call) {
  const Tensor &logits = call.in[0], &target = call.in[1], &gradient = call.in[4];
  auto attributes = call.as<LossAttrs>();
  DType sums = loss::sum_dtype(logits.dtype());
  Tensor counts = ne(target, static_cast<double>(attributes.ignore_index)), row = counts.to(sums);
  if (attributes.reduction == Reduction::mean) row = row / sum(row);
  Tensor factor = (row * gradient.to(sums)).unsqueeze(1);
  Tensor difference = softmax(logits.to(sums), 1) - target_distribution(logits, target, attributes, counts);
  return {masked_fill(difference * factor, logical_not(counts).unsqueeze(1), 0.0).to(logits.dtype())};
}

const OpDef kCrossEntropyBackward = {.name = "cross_entropy_backward",
                                     .infer = cross_entropy_backward_infer,
                                     .cpu = loss::backward_cpu,
                                     .gpu = loss::backward_gpu,
                                     .reference = cross_entropy_backward_reference};

TensorList cross_entropy_vjp(const VjpCall& call) {
  if (!call.grad[0].defined()) return {{}, {}};
  return {apply1(kCrossEntropyBackward, {call.in[0], call.in[1], call.out[1], call.out[2], call.grad[0]}, call.attrs),
          {}};
}

const OpDef kCrossEntropy = {.name = "cross_entropy",
                             .infer = cross_entropy_infer,
                             .cpu = loss::forward_cpu,
                             .gpu = loss::forward_gpu,
                             .reference = cross_entropy_reference,
                             .vjp = cross_entropy_vjp,
                             .saved = Saved::both};

Tensor loss_reduce(const Tensor& losses, Reduction reduction) {
  return reduction == Reduction::none ? losses : reduction == Reduction::sum ? sum(losses) : mean(losses);
}

}  // namespace

Tensor cross_entropy(const Tensor& logits, const Tensor& target, std::int64_t ignore_index, double label_smoothing,
                     Reduction reduction) {
  detail::require_defined("cross_entropy", logits, target);
  if (is_floating(target.dtype()))  // probabilities
    return cross_entropy(logits, target, Tensor(), ignore_index, label_smoothing, reduction);
  const ClassRows rows = class_rows("cross_entropy", logits, target);
  const Tensor loss =
      apply1(kCrossEntropy, {rows.x, rows.target}, Attrs::of(LossAttrs{ignore_index, label_smoothing, reduction}));
  return reduction == Reduction::none && logits.dim() != 2 ? loss.reshape(target.shape()) : loss;
}

Tensor nll_loss(const Tensor& log_probs, const Tensor& target, std::int64_t ignore_index, Reduction reduction) {
  detail::require_defined("nll_loss", log_probs, target);
  const ClassRows rows = class_rows("nll_loss", log_probs, target);
  loss_check_rows("nll_loss", rows.x, rows.target);
  Tensor counts = ne(rows.target, static_cast<double>(ignore_index));
  Tensor picked = gather(detail::raised(rows.x), 1, where(counts, rows.target, 0.0).unsqueeze(1)).squeeze(1);
  Tensor losses = masked_fill(-picked, logical_not(counts), 0.0);
  if (reduction == Reduction::mean) return sum(losses) / sum(counts.to(losses.dtype()));
  if (reduction == Reduction::sum) return sum(losses);
  return log_probs.dim() != 2 ? losses.reshape(target.shape()) : losses;
}

Tensor mse_loss(const Tensor& x, const Tensor& target, Reduction reduction) {
  detail::require_defined("mse_loss", x, target);
  if (x.shape() != target.shape()) {
    throw ShapeError(
        fmt::format("mse_loss: x {} and target {} differ in shape; expand one explicitly if that is intended",
                    str(x.shape()), str(target.shape())));
  }
  return loss_reduce(square(detail::raised(x) - detail::raised(target)), reduction);
}

loss::LossAndGradient loss::loss_and_gradient(const Tensor& logits, const Tensor& target, const Tensor& g,
                                              const LossAttrs& a) {
  const Attrs attrs = Attrs::of(a);
  TensorList found = apply(kCrossEntropy, {logits, target}, attrs);
  return {found[0], apply1(kCrossEntropyBackward, {logits, target, found[1], found[2], g}, attrs)};
}

std::span<const OpDef* const> ops_in_loss() {
  static const OpDef* const list[] = {&kCrossEntropy, &kCrossEntropyBackward};
  return list;
}

}  // namespace etna
