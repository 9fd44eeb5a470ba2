#include <etna/nn/adaptive_softmax.h>

#include <cmath>
#include <cstdint>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <etna/tensor/ops.h>

namespace etna::nn {
namespace {

constexpr const char* kName = "AdaptiveLogSoftmaxWithLoss";
constexpr std::int64_t kElsewhere = INT32_MIN;  // targets of other clusters; no class, and no index that people pass

std::vector<std::int64_t> checked_cutoffs(std::vector<std::int64_t> cutoffs, std::int64_t n_classes) {
  std::int64_t before = 0;
  bool fits = !cutoffs.empty();
  for (const std::int64_t cutoff : cutoffs) {
    fits = fits && cutoff > before && cutoff < n_classes;
    before = cutoff;
  }
  if (!fits) {
    throw Error(fmt::format("{}: the cutoffs are [{}]; wanted are rising numbers in [1, {}]", kName,
                            fmt::join(cutoffs, ", "), n_classes - 1));
  }
  cutoffs.push_back(n_classes);
  return cutoffs;
}

}  // namespace

AdaptiveLogSoftmaxWithLoss::AdaptiveLogSoftmaxWithLoss(std::int64_t in_features, std::int64_t n_classes,
                                                       std::vector<std::int64_t> given, double div_value,
                                                       bool head_bias)
    : in_features(checked_size(kName, "in_features", in_features, 1)),
      n_classes(n_classes),
      cutoffs(checked_cutoffs(std::move(given), n_classes)),
      div_value(div_value),
      head(in_features, cutoffs.front() + static_cast<std::int64_t>(cutoffs.size()) - 1, head_bias) {
  if (!(div_value > 0)) throw Error(fmt::format("{}: a div_value of {}; it must be positive", kName, div_value));
  register_module("head", head);
  register_module("tail", tail);
  double divisor = 1;
  for (std::size_t i = 0; i + 1 < cutoffs.size(); ++i) {
    divisor *= div_value;
    const double features = std::floor(static_cast<double>(in_features) / divisor);
    if (!(features < 0x1p62)) throw ShapeError(fmt::format("{}: tail {} is too wide", kName, i));
    const auto hidden = static_cast<std::int64_t>(features);
    tail.emplace_back().add<Linear>(in_features, hidden, false).add<Linear>(hidden, cutoffs[i + 1] - cutoffs[i], false);
  }
}

std::unique_ptr<Module> AdaptiveLogSoftmaxWithLoss::another() const {
  return std::make_unique<AdaptiveLogSoftmaxWithLoss>(in_features, n_classes,
                                                      std::vector<std::int64_t>(cutoffs.begin(), cutoffs.end() - 1),
                                                      div_value, head.bias.defined());
}

AdaptiveLogSoftmaxOutput AdaptiveLogSoftmaxWithLoss::forward(const Tensor& x, const Tensor& target) const {
  const bool one = x.dim() == 1;
  if ((x.dim() != 1 && x.dim() != 2) || x.size(-1) != in_features || target.dim() != x.dim() - 1 ||
      (!one && target.size(0) != x.size(0))) {
    throw ShapeError(fmt::format("{}: x is {} and the target {}; wanted [N, {}] and [N], or [{}] and []", kName,
                                 str(x.shape()), str(target.shape()), in_features, in_features));
  }
  const Tensor rows = one ? x.unsqueeze(0) : x, classes = (one ? target.unsqueeze(0) : target).to(i64);
  // A row of a tail's cluster is, for the head, of the class that stands for the cluster. The losses add up: where a
  // tail ignores a row, its loss and its gradient are 0.
  Tensor in_head = classes, nll;
  for (std::size_t i = 0; i < tail.size(); ++i) {
    const auto low = static_cast<double>(cutoffs[i]), high = static_cast<double>(cutoffs[i + 1]);
    const Tensor elsewhere = logical_or(lt(classes, low), ge(classes, high));
    const auto cluster = static_cast<double>(shortlist() + static_cast<std::int64_t>(i));
    in_head = where(elsewhere, in_head, full(classes.shape(), cluster, {i64, classes.device()}));
    const Tensor within = masked_fill(classes - low, elsewhere, static_cast<double>(kElsewhere));
    const Tensor loss = cross_entropy(tail[i](rows), within, kElsewhere, 0, Reduction::none);
    nll = nll.defined() ? nll + loss : loss;
  }
  // What is no class stays what it is, and no class of the head either.
  in_head = masked_fill(in_head, ge(classes, static_cast<double>(n_classes)), static_cast<double>(n_classes));
  nll = nll + cross_entropy(head(rows), in_head, kElsewhere, 0, Reduction::none);
  const Tensor output = -nll;
  return {one ? output.squeeze(0) : output, mean(nll)};
}

AdaptiveLogSoftmaxOutput AdaptiveLogSoftmaxWithLoss::operator()(const Tensor& x, const Tensor& target) const {
  if (!hooked()) return forward(x, target);
  const TensorList out = call_hooked({x, target}, [this](const TensorList& in) {
    const AdaptiveLogSoftmaxOutput made = forward(in[0], in[1]);
    return TensorList{made.output, made.loss};
  });
  return {out[0], out[1]};
}

Tensor AdaptiveLogSoftmaxWithLoss::log_prob(const Tensor& x) const {
  const Tensor all = log_softmax(head(x), -1);
  std::vector<Tensor> parts = {all.slice(-1, 0, shortlist())};
  for (std::size_t i = 0; i < tail.size(); ++i) {
    const std::int64_t at = shortlist() + static_cast<std::int64_t>(i);
    parts.push_back(log_softmax(tail[i](x), -1) + all.slice(-1, at, at + 1));
  }
  return cat(parts, -1);
}

Tensor AdaptiveLogSoftmaxWithLoss::predict(const Tensor& x) const { return argmax(log_prob(x), -1); }

}  // namespace etna::nn
