#include <cmath>

#include <fmt/format.h>

#include <etna/autograd/autograd.h>
#include <etna/tensor/ops.h>

namespace etna::autograd {
namespace {

/// Σ over outputs of Σ output · weight: a scalar whose gradient weights every element differently.
Tensor weighted_sum(const TensorList& outputs) {
  Tensor total;
  for (const Tensor& y : outputs) {
    if (!y.defined() || !is_floating(y.dtype())) continue;
    std::vector<double> weights(static_cast<std::size_t>(y.numel()));
    for (std::size_t i = 0; i < weights.size(); ++i)
      weights[i] = 0.5 + std::fmod(0.6180339887498949 * static_cast<double>(i + 1), 1.0);
    Tensor part = sum(y * from_vector(weights, y.shape(), y.device()));
    total = total.defined() ? total + part : part;
  }
  return total;
}

using Function = std::function<TensorList(const TensorList&)>;

/// @param constant_allowed an output that is not recorded counts as gradient 0, and the differences must agree
std::string check_first(const Function& f, const TensorList& inputs, const GradcheckOptions& options,
                        bool constant_allowed) {
  TensorList leaves;
  std::vector<std::size_t> wanted;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    leaves.push_back(inputs[i]);
    if (!inputs[i].defined() || !inputs[i].requires_grad()) continue;
    leaves[i] = inputs[i].detach().clone().requires_grad_();
    wanted.push_back(i);
  }
  if (wanted.empty()) return "no input requires grad, so there is nothing to check";
  TensorList targets;
  for (std::size_t i : wanted) targets.push_back(leaves[i]);
  Tensor loss = weighted_sum(f(leaves));
  if (!loss.defined()) return "no output is floating, so there is nothing to check";
  if (!loss.requires_grad() && !constant_allowed) return "no output depends on an input that requires grad";
  TensorList analytic(targets.size());
  if (loss.requires_grad()) analytic = grad(std::span(&loss, 1), targets);

  auto value_at = [&](std::size_t input, std::int64_t element, double shift) {
    NoGrad off;
    TensorList moved = leaves;
    moved[input] = leaves[input].detach().clone();
    moved[input].mutable_data<double>()[element] += shift;
    return weighted_sum(f(moved)).item<double>();
  };
  for (std::size_t k = 0; k < wanted.size(); ++k) {
    std::size_t i = wanted[k];
    if (leaves[i].dtype() != f64)
      return fmt::format("input {} is {}; differences need f64", i, name(leaves[i].dtype()));
    std::vector<double> found = analytic[k].defined()
                                    ? analytic[k].to_vector<double>()
                                    : std::vector<double>(static_cast<std::size_t>(leaves[i].numel()));
    for (std::int64_t e = 0; e < leaves[i].numel(); ++e) {
      double numeric = (value_at(i, e, options.step) - value_at(i, e, -options.step)) / (2 * options.step);
      double got = found[static_cast<std::size_t>(e)];
      if (!(std::abs(got - numeric) <= options.absolute + options.relative * std::abs(numeric))) {
        return fmt::format("input {} {}, element {}: the gradient is {}, differences give {}", i,
                           str(leaves[i].shape()), e, got, numeric);
      }
    }
  }
  return "";
}

}  // namespace

std::string gradcheck(const Function& f, const TensorList& inputs, GradcheckOptions options) {
  std::string first = check_first(f, inputs, options, false);
  return !first.empty() || !options.second_order ? first : gradgradcheck(f, inputs, options);
}

std::string gradgradcheck(const Function& f, const TensorList& inputs, GradcheckOptions options) {
  auto gradient_of = [&](const TensorList& in) {
    GradMode on(true);
    // Even if this check of the function wants values only, the derivative inside it needs recorded leaves.
    TensorList recorded = in, roots;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (!inputs[i].defined() || !inputs[i].requires_grad()) continue;
      if (!recorded[i].requires_grad()) recorded[i] = recorded[i].detach().clone().requires_grad_();
      roots.push_back(recorded[i]);
    }
    Tensor y = weighted_sum(f(recorded));
    TensorList found = grad(std::span(&y, 1), roots, {}, true, true);
    for (std::size_t k = 0; k < found.size(); ++k) {
      if (!found[k].defined()) found[k] = zeros_like(roots[k]);
    }
    return found;
  };
  // The gradient of a linear function is constant.
  std::string second = check_first(gradient_of, inputs, options, true);
  return second.empty() ? "" : "second order: " + second;
}

}  // namespace etna::autograd
