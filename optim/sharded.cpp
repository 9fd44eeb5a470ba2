#include <fmt/format.h>

#include <etna/dist/dist.h>
#include <etna/dist/sharding.h>
#include <etna/optim/optimizer.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/optimizer/internal/optimizer.h>

// An optimizer that steps this rank's part of each parameter.
namespace etna::optim {

void Optimizer::require_sharded(const ParamGroup& group) const {
  if (sharding_ == nullptr) return;
  for (const Tensor& p : group.parameters) {
    if (p.requires_grad() && !sharding_->contains(p))
      throw Error(
          fmt::format("{}: a parameter {} is none of the model that is sharded; add it to the model before the "
                      "DataParallel is made",
                      name_, str(p.shape())));
  }
}

void Optimizer::shard(std::shared_ptr<distributed::Sharding> sharding) {
  if (sharding == nullptr) return;
  if (!is_elementwise())
    throw Error(
        fmt::format("{}: it steps whole tensors, so its state cannot be divided among ranks; use an optimizer "
                    "that steps each element by itself (AdamW, Adam, SGD, Lion ...), or no sharding",
                    name_));
  for (const State& state : state_) {
    if (state.begun) throw Error(fmt::format("{}: shard() comes after its first step; call it before", name_));
  }
  sharding_ = std::move(sharding);
  try {
    for (const ParamGroup& group : groups_) require_sharded(group);
  } catch (...) {
    sharding_.reset();
    throw;
  }
  settings_changed();
}

Tensor Optimizer::stepped(const Tensor& parameter) const {
  return sharding_ == nullptr ? parameter : sharding_->part(parameter);
}

Tensor Optimizer::gradient(const Tensor& parameter) const {
  return sharding_ == nullptr ? parameter.grad() : distributed::gradient_of_part(*sharding_, parameter);
}

/// All gradients for norms and unscaling: whole ones where this rank has them.
std::vector<Tensor> Optimizer::gradients() const {
  const bool parts = sharding_ != nullptr && !sharding_->has_whole_gradients();
  std::vector<Tensor> found;
  for (const ParamGroup& group : groups_) {
    for (const Tensor& p : group.parameters) {
      if (Tensor grad = parts ? gradient(p) : p.grad(); grad.defined()) found.push_back(grad);
    }
  }
  return found;
}

/// One tensor with the norm of all ranks' gradients, in the place of these.
std::vector<Tensor> Optimizer::norm_of_all_ranks(const std::vector<Tensor>& gradients) const {
  if (sharding_ == nullptr || sharding_->has_whole_gradients() || gradients.empty()) return gradients;
  return {global_norm(std::vector<Tensor>{distributed::all_gather(global_norm(gradients).reshape({1}))}).reshape({1})};
}

void Optimizer::zero_grad() {
  for (ParamGroup& group : groups_) {
    for (Tensor& p : group.parameters) {
      p.set_grad({});
      if (sharding_ != nullptr && !sharding_->has_whole_gradients()) stepped(p).set_grad({});
    }
  }
}

}  // namespace etna::optim
