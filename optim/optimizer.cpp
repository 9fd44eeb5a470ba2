#include <etna/optim/optimizer.h>

#include <algorithm>
#include <tuple>
#include <unordered_set>

#include <fmt/format.h>

#include <etna/device/profile/profiler.h>
#include <etna/tensor/capture.h>
#include <etna/tensor/multi_tensor.h>
#include <etna/tensor/op.h>

namespace etna::optim {
namespace {

DType state_dtype(const Tensor& parameter) { return parameter.dtype() == f64 ? f64 : f32; }

void require_settings(double lr, double weight_decay) {
  if (!(lr >= 0) || !(weight_decay >= 0)) {
    throw Error(fmt::format("optimizer: a learning rate of {} and a weight decay of {}; neither may be negative", lr,
                            weight_decay));
  }
}

}  // namespace

Optimizer::Optimizer(std::vector<ParamGroup> groups, double lr, double weight_decay, double max_grad_norm)
    : lr_(lr), weight_decay_(weight_decay), max_grad_norm_(max_grad_norm) {
  if (!(max_grad_norm >= 0))
    throw Error(fmt::format("optimizer: a max_grad_norm of {}; it may not be negative", max_grad_norm));
  for (ParamGroup& group : groups) add_param_group(std::move(group));
  if (state_.empty())
    throw Error(
        "optimizer: no parameters were given, or none of them requires grad; pass what parameters() gives, or call "
        "requires_grad_()");
}

void Optimizer::add_param_group(ParamGroup group) {
  if (group.lr == ParamGroup::kDefault) group.lr = lr_;
  if (group.weight_decay == ParamGroup::kDefault) group.weight_decay = weight_decay_;
  require_settings(group.lr, group.weight_decay);
  std::unordered_set<const TensorImpl*> seen;
  for (const ParamGroup& g : groups_) {
    for (const Tensor& p : g.parameters) seen.insert(p.impl());
  }
  std::size_t position = state_.size();
  for (const Tensor& p : group.parameters) {
    if (!p.defined() || !p.is_leaf()) {
      throw Error(fmt::format("optimizer: parameter {} {} is no leaf; pass what parameters() gives", position,
                              p.defined() ? str(p.shape()) : "(undefined)"));
    }
    if (!seen.insert(p.impl()).second)
      throw Error(fmt::format("optimizer: parameter {} {} was given before", position, str(p.shape())));
    ++position;
  }
  std::erase_if(group.parameters, [](const Tensor& p) { return !p.requires_grad(); });
  state_.resize(state_.size() + group.parameters.size());
  groups_.push_back(std::move(group));
}

ParamGroup& Optimizer::group(std::size_t index) {
  if (index >= groups_.size()) {
    throw Error(fmt::format("optimizer: there is no group {}; there are {}", index, groups_.size()));
  }
  return groups_[index];
}

void Optimizer::set_lr(std::size_t index, double lr) {
  ParamGroup& g = group(index);
  require_settings(lr, g.weight_decay);
  g.lr = lr;
}

void Optimizer::set_weight_decay(std::size_t index, double weight_decay) {
  ParamGroup& g = group(index);
  require_settings(g.lr, weight_decay);
  g.weight_decay = weight_decay;
}

void Optimizer::step() { step({}, false); }

std::vector<Tensor> Optimizer::gradients() const {
  std::vector<Tensor> found;
  for (const ParamGroup& group : groups_) {
    for (const Tensor& p : group.parameters) {
      if (Tensor grad = p.grad(); grad.defined()) found.push_back(grad);
    }
  }
  return found;
}

Tensor Optimizer::grad_norm() const { return control_.defined() ? control_.select(0, 1) : Tensor(); }

bool Optimizer::newcomers() const {
  if (std::none_of(state_.begin(), state_.end(), [](const State& s) { return s.step > 0; })) return false;
  std::size_t index = 0;
  for (const ParamGroup& group : groups_) {
    for (const Tensor& p : group.parameters) {
      if (state_[index++].tensors.empty() && p.grad().defined()) return true;
    }
  }
  return false;
}

std::int64_t Optimizer::skipped() const {
  NotCaptured now;
  return control_.defined() ? control_.select(0, 2).item<std::int64_t>() : 0;
}

Tensor Optimizer::control_from(const std::vector<Tensor>& gradients, const Tensor& loss_scale, bool scaled) {
  if (gradients.empty()) return {};
  Device device = gradients.front().device();
  for (const Tensor& g : gradients) {
    if (g.device() != device) {
      throw DeviceError(
          fmt::format("optimizer: gradients on {} and {}; their norm, for max_grad_norm or a loss scale, is "
                      "taken on one device",
                      device.str(), g.device().str()));
    }
  }
  if (!control_.defined() || control_.device() != device) {
    NotCaptured now;
    control_ = control_.defined() ? control_.to(device) : zeros({4}, {f32, device});
  }
  control_step_(control_, loss_scale, gradients, max_grad_norm_, scaled);
  return control_;
}

void Optimizer::step(const Tensor& loss_scale, bool scaled) {
  profile::Scope phase("optimizer", profile::Category::phase);
  GradMode off(false);
  const std::int64_t skipped_before = newcomers() ? skipped() : 0;
  const bool controlled = max_grad_norm_ > 0 || loss_scale.defined();
  const Tensor control = controlled ? control_from(gradients(), loss_scale, scaled) : Tensor();
  struct Alike {
    std::vector<std::size_t> parameters;
    std::vector<Tensor> list;
  };
  std::size_t index = 0, names = state_names().size();
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    // One list for each device and step count: parameters that were skipped before have made fewer steps.
    std::map<std::tuple<Device, std::int64_t, std::int64_t>, Alike> lists;
    for (const Tensor& p : groups_[g].parameters) {
      State& state = state_[index++];
      Tensor grad = p.grad();
      if (!grad.defined()) continue;
      if (state.tensors.empty()) {
        NotCaptured now;  // replays continue from the current state
        state.skipped = skipped_before;
        for (std::size_t k = 0; k < names; ++k)
          state.tensors.push_back(full(state_shape(p, k), initial_state(), {state_dtype(p), p.device()}));
      }
      Alike& alike = lists[{p.device(), state.step, state.skipped}];
      alike.parameters.push_back(index - 1);
      alike.list.push_back(p);
      alike.list.push_back(grad);
      for (Tensor& x : state.tensors) alike.list.push_back(x = x.to(p.device(), state_dtype(p)));
    }
    for (auto& [key, alike] : lists) {
      // All parameters of a list have the same counts, so the first gives them. A control counts skipped steps from the
      // optimizer's first step on.
      const StepNumbers numbers =
          each_step_numbers(alike.list, [this, g, controlled, parameters = std::move(alike.parameters)] {
            for (std::size_t i : parameters) ++state_[i].step;
            const State& first = state_[parameters.front()];
            return StepValues{.lr = groups_[g].lr,
                              .weight_decay = groups_[g].weight_decay,
                              .step = first.step + (controlled ? first.skipped : 0)};
          });
      update(alike.list, numbers, control);
    }
  }
}

void Optimizer::zero_grad() {
  for (ParamGroup& group : groups_) {
    for (Tensor& p : group.parameters) p.set_grad({});
  }
}

void Optimizer::set_lr(double lr) {
  for (ParamGroup& group : groups_) group.lr = lr;
}

std::map<std::string, Tensor> Optimizer::state_dict() const {
  std::map<std::string, Tensor> state;
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    state[fmt::format("group.{}.lr", i)] = scalar(groups_[i].lr, {f64});
    state[fmt::format("group.{}.weight_decay", i)] = scalar(groups_[i].weight_decay, {f64});
  }
  const std::vector<std::string> names = state_names();
  const std::int64_t all_skipped = skipped();
  for (std::size_t i = 0; i < state_.size(); ++i) {
    if (state_[i].step == 0) continue;
    std::int64_t made = state_[i].step - (all_skipped - state_[i].skipped);
    state[fmt::format("{}.step", i)] = scalar(static_cast<double>(made), {f64});
    for (std::size_t k = 0; k < names.size(); ++k) state[fmt::format("{}.{}", i, names[k])] = state_[i].tensors[k];
  }
  return state;
}

void Optimizer::load_state_dict(const std::map<std::string, Tensor>& state) {
  const std::vector<std::string> names = state_names();
  std::vector<ParamGroup> groups = groups_;
  std::vector<State> loaded(state_.size());
  std::string wrong;
  std::size_t used = 0;
  /// The entry, if it exists and has the right shape.
  auto take = [&](const std::string& name, const Shape& shape) -> const Tensor* {
    auto found = state.find(name);
    if (found == state.end()) {
      wrong += fmt::format(" {} (missing)", name);
    } else if (found->second.shape() != shape) {
      wrong += fmt::format(" {} {} (wanted {})", name, str(found->second.shape()), str(shape));
    } else {
      return ++used, &found->second;
    }
    return nullptr;
  };
  GradMode off(false);
  std::size_t i = 0;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    if (const Tensor* x = take(fmt::format("group.{}.lr", g), {})) groups[g].lr = x->item<double>();
    if (const Tensor* x = take(fmt::format("group.{}.weight_decay", g), {})) groups[g].weight_decay = x->item<double>();
    for (const Tensor& p : groups[g].parameters) {
      State& to = loaded[i];
      std::string step = fmt::format("{}.step", i);
      if (state.contains(step)) {
        if (const Tensor* x = take(step, {})) to.step = x->item<std::int64_t>();
        for (std::size_t k = 0; k < names.size(); ++k) {
          if (const Tensor* x = take(fmt::format("{}.{}", i, names[k]), state_shape(p, k))) {
            to.tensors.push_back(x->to(p.device(), state_dtype(p)).clone());
          }
        }
      }
      ++i;
    }
  }
  if (used != state.size() || !wrong.empty()) {
    throw Error(
        fmt::format("load_state_dict: {} entries of {} fit this optimizer's {} parameters in {} groups; wrong:{}", used,
                    state.size(), state_.size(), groups_.size(), wrong.empty() ? " entries it does not know" : wrong));
  }
  groups_ = std::move(groups);
  state_ = std::move(loaded);
  control_ = {};
}

}  // namespace etna::optim
