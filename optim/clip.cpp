#include <etna/optim/optimizer.h>

#include <fmt/format.h>

#include <etna/device/profile/profiler.h>
#include <etna/dist/sharding.h>
#include <etna/tensor/op.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/optimizer/internal/optimizer.h>

namespace etna::optim {
namespace {

void require_gradients_here(const char* what, const std::vector<Tensor>& parameters) {
  for (const Tensor& p : parameters) {
    if (!p.grad().defined() && distributed::has_divided_gradient(p))
      throw Error(
          fmt::format("{}: the gradients are divided among the ranks (ZeRO), so no parameter has one; pass the "
                      "optimizer max_grad_norm, which knows all parts",
                      what));
  }
}

}  // namespace

Tensor clip_grad_norm_(const std::vector<Tensor>& parameters, double max_norm, double norm_type) {
  profile::Scope phase("clip", profile::Category::phase);
  GradMode off(false);
  require_gradients_here("clip_grad_norm_", parameters);
  std::vector<Tensor> grads;
  for (const Tensor& p : parameters) {
    if (Tensor grad = p.grad(); grad.defined()) grads.push_back(grad);
  }
  if (grads.empty()) return zeros({}, {f32, parameters.empty() ? kCPU : parameters.front().device()});
  Tensor norm = global_norm(grads, norm_type);
  scale_to_norm_(grads, norm, max_norm);
  return norm;
}

void clip_grad_value_(const std::vector<Tensor>& parameters, double clip_value) {
  profile::Scope phase("clip", profile::Category::phase);
  if (!(clip_value >= 0)) throw Error(fmt::format("clip_grad_value_: the limit {} must not be negative", clip_value));
  GradMode off(false);
  require_gradients_here("clip_grad_value_", parameters);
  for (const Tensor& p : parameters) {
    if (Tensor grad = p.grad(); grad.defined()) grad.copy_(clamp(grad, -clip_value, clip_value));
  }
}

}  // namespace etna::optim
