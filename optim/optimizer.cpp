#include <etna/optim/optimizer.h>

#include <algorithm>
#include <cmath>
#include <tuple>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>

#include <etna/device/internal/log.h>
#include <etna/device/memory_control.h>
#include <etna/device/profile/profiler.h>
#include <etna/dist/dist.h>
#include <etna/dist/sharding.h>
#include <etna/tensor/capture.h>
#include <etna/tensor/internal/capture_hooks.h>
#include <etna/tensor/internal/name_list.h>
#include <etna/tensor/op.h>
#include <etna/tensor/ops/optimizer/internal/optimizer.h>

namespace etna::optim {
namespace {

DType state_dtype(const Tensor& parameter) { return parameter.dtype() == f64 ? f64 : f32; }

/// The settings of a group.
struct Setting {
  const char* name;
  double ParamGroup::*value;
};
constexpr Setting kSettings[] = {{"lr", &ParamGroup::lr},
                                 {"weight_decay", &ParamGroup::weight_decay},
                                 {"momentum", &ParamGroup::momentum},
                                 {"beta1", &ParamGroup::beta1},
                                 {"beta2", &ParamGroup::beta2},
                                 {"eps", &ParamGroup::eps}};

/// Every optimizer has these, Rprop's weight decay of 0 among them.
bool always_there(const Setting& s) { return s.value == &ParamGroup::lr || s.value == &ParamGroup::weight_decay; }

/// The entry that holds how many parameters a group has. Older checkpoints lack it.
std::string group_size_name(std::size_t group) { return fmt::format("group.{}.parameters", group); }

void require(const char* optimizer, const Setting& s, double value) {
  const bool beta = s.value == &ParamGroup::beta1 || s.value == &ParamGroup::beta2;
  if (beta && !(value >= 0 && value < 1))
    throw Error(fmt::format("{}: {} is {}, not in [0, 1)", optimizer, s.name, value));
  if (!std::isfinite(value)) throw Error(fmt::format("{}: {} is {}; it must be finite", optimizer, s.name, value));
  if (value < 0) throw Error(fmt::format("{}: {} is {}; it must not be negative", optimizer, s.name, value));
}

/// Fills in what the group leaves out, and checks all.
void complete(const char* optimizer, ParamGroup& group, const ParamGroup& defaults) {
  for (const Setting& s : kSettings) {
    double& value = group.*s.value;
    const double usual = defaults.*s.value;
    const bool has = usual != ParamGroup::kDefault || always_there(s);
    if (value == ParamGroup::kDefault) {
      value = usual;
    } else if (!has) {
      throw Error(
          fmt::format("{}: a group sets {} to {}, but this optimizer has no {}", optimizer, s.name, value, s.name));
    }
    if (has) require(optimizer, s, value);
  }
}

/// Where no parameter has a gradient: it is no oversight of backward().
void require_whole_gradients(const char* optimizer, const std::vector<ParamGroup>& groups) {
  for (const ParamGroup& group : groups) {
    for (const Tensor& p : group.parameters) {
      if (distributed::has_divided_gradient(p))
        throw Error(
            fmt::format("{}: the gradients are divided among the ranks (ZeRO), and this optimizer does not know "
                        "it; call optimizer.shard(parallel.sharding()) before the first step",
                        optimizer));
    }
  }
}

}  // namespace

Optimizer::Optimizer(const char* name, std::vector<ParamGroup> groups, ParamGroup defaults, double max_grad_norm)
    : version_(std::make_shared<std::int64_t>(0)),
      name_(name),
      defaults_(std::move(defaults)),
      max_grad_norm_(max_grad_norm) {
  if (!(max_grad_norm >= 0))
    throw Error(fmt::format("{}: a max_grad_norm of {}; it may not be negative", name, max_grad_norm));
  if (defaults_.beta1 != ParamGroup::kDefault)
    momentum_ = &ParamGroup::beta1;
  else if (defaults_.momentum != ParamGroup::kDefault)
    momentum_ = &ParamGroup::momentum;
  for (ParamGroup& group : groups) add_param_group(std::move(group));
  if (state_.empty())
    throw Error(fmt::format(
        "{}: no parameters were given, or none of them requires grad; pass what parameters() gives, or call "
        "requires_grad_()",
        name));
}

void Optimizer::add_param_group(ParamGroup group) {
  complete(name_, group, defaults_);
  require_sharded(group);
  std::unordered_set<const TensorImpl*> seen;
  for (const ParamGroup& g : groups_) {
    for (const Tensor& p : g.parameters) seen.insert(p.impl());
  }
  std::size_t position = state_.size();
  for (const Tensor& p : group.parameters) {
    if (p.defined() && distributed::is_divided(p))
      throw Error(
          fmt::format("{}: parameter {} is divided among the ranks (ZeRO stage 3); make the optimizer before the "
                      "DataParallel, or use stage 2",
                      name_, position));
    if (!p.defined() || !p.is_leaf()) {
      throw Error(fmt::format("{}: parameter {} {} is no leaf; pass what parameters() gives", name_, position,
                              p.defined() ? str(p.shape()) : "(undefined)"));
    }
    for (int d = 0; d < p.dim(); ++d) {
      if (p.shape()[d] > 1 && p.strides()[d] == 0) {
        throw Error(
            fmt::format("{}: parameter {} {} repeats its elements along dimension {}; pass what it was expanded from",
                        name_, position, str(p.shape()), d));
      }
    }
    if (!seen.insert(p.impl()).second)
      throw Error(fmt::format("{}: parameter {} {} was given before", name_, position, str(p.shape())));
    ++position;
  }
  std::erase_if(group.parameters, [](const Tensor& p) { return !p.requires_grad(); });
  state_.resize(state_.size() + group.parameters.size());
  groups_.push_back(std::move(group));
  settings_changed();
}

void Optimizer::settings_changed() {
  ++*version_;
  capture_hooks::changed();
}

void Optimizer::require_group(std::size_t index) const {
  if (index >= groups_.size()) {
    throw Error(fmt::format("{}: there is no group {}; there are {}", name_, index, groups_.size()));
  }
}

void Optimizer::set_lr(std::size_t index, double lr) {
  require_group(index);
  require(name_, kSettings[0], lr);
  groups_[index].lr = lr;
}

void Optimizer::set_weight_decay(std::size_t index, double weight_decay) {
  require_group(index);
  require(name_, kSettings[1], weight_decay);
  groups_[index].weight_decay = weight_decay;
}

void Optimizer::set_momentum(std::size_t index, double momentum) {
  require_group(index);
  if (momentum_ == nullptr)
    throw Error(fmt::format("{}: it has neither momentum nor betas, so no momentum can be set", name_));
  for (const Setting& s : kSettings) {
    if (s.value == momentum_) require(name_, s, momentum);
  }
  if ((std::exchange(groups_[index].*momentum_, momentum) != 0) != (momentum != 0)) settings_changed();
}

double Optimizer::momentum(std::size_t index) const {
  require_group(index);
  return momentum_ == nullptr ? 0 : groups_[index].*momentum_;
}

void Optimizer::step() { step({}, false); }

Tensor Optimizer::grad_norm() const { return control_.defined() ? control_.select(0, 1) : Tensor(); }

bool Optimizer::newcomers() const {
  if (std::none_of(state_.begin(), state_.end(), [](const State& s) { return s.step > 0; })) return false;
  std::size_t index = 0;
  for (const ParamGroup& group : groups_) {
    for (const Tensor& p : group.parameters) {
      if (!state_[index++].begun && gradient(p).defined()) return true;
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
          fmt::format("{}: gradients on {} and {}; their norm, for max_grad_norm or a loss scale, is "
                      "taken on one device",
                      name_, device.str(), g.device().str()));
    }
  }
  if (!control_.defined() || control_.device() != device) {
    NotCaptured now;
    control_ = control_.defined() ? control_.to(device) : zeros({4}, {f32, device});
  }
  control_step_(control_, loss_scale, norm_of_all_ranks(gradients), max_grad_norm_, scaled);
  return control_;
}

void Optimizer::step(const Tensor& loss_scale, bool scaled) {
  profile::Scope phase("optimizer", profile::Category::phase);
  GradMode off(false);
  capture_hooks::note_setting(version_, capture_hooks::Touch::read, [name = name_](std::int64_t) {
    return fmt::format("{} has other parameters or settings now", name);
  });
  const std::int64_t skipped_before = newcomers() ? skipped() : 0;
  const bool controlled = max_grad_norm_ > 0 || loss_scale.defined();
  const Tensor control = controlled ? control_from(gradients(), loss_scale, scaled) : Tensor();
  struct Alike {
    std::vector<std::size_t> parameters;
    std::vector<Tensor> list;
    std::vector<std::pair<Tensor, Tensor>> packed;  ///< parameters with strides, and their contiguous copies
  };
  std::size_t index = 0;
  bool any = false;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    const std::size_t names = state_names(groups_[g]).size();
    // One list for each device and step count: parameters that were skipped before have made fewer steps.
    std::map<std::tuple<Device, std::int64_t, std::int64_t>, Alike> lists;
    for (const Tensor& p : groups_[g].parameters) {
      State& state = state_[index++];
      const Tensor grad = gradient(p);
      if (!grad.defined()) continue;
      const Tensor x = stepped(p);
      any = true;
      if (!state.begun) state.skipped = skipped_before, state.begun = true;
      if (state.tensors.size() < names) {
        NotCaptured now;  // replays continue from the current state
        const MemoryScope scope(MemoryUse::optimizer);
        for (std::size_t k = state.tensors.size(); k < names; ++k)
          state.tensors.push_back(full(state_shape(x, k), initial_state(), {state_dtype(x), x.device()}));
      }
      Alike& alike = lists[{x.device(), state.step, state.skipped}];
      alike.parameters.push_back(index - 1);
      alike.list.push_back(x.contiguous());
      if (!x.is_contiguous()) alike.packed.emplace_back(x, alike.list.back());
      alike.list.push_back(grad);
      for (std::size_t k = 0; k < names; ++k) {
        Tensor& kept = state.tensors[k];
        alike.list.push_back(kept = kept.to(x.device(), state_dtype(x)));
      }
    }
    for (auto& [key, alike] : lists) {
      // All parameters of a list have the same counts, so the first gives them. A control counts skipped steps from the
      // optimizer's first step on.
      if (capturing()) capture_hooks::guard(equal_steps(alike.parameters));
      const StepNumbers numbers =
          each_step_numbers(alike.list, [this, g, controlled, parameters = std::move(alike.parameters)] {
            for (std::size_t i : parameters) ++state_[i].step;
            const State& first = state_[parameters.front()];
            return StepValues{.lr = groups_[g].lr,
                              .weight_decay = groups_[g].weight_decay,
                              .step = first.step + (controlled ? first.skipped : 0),
                              .momentum = momentum(g)};
          });
      update(groups_[g], alike.list, numbers, control);
      for (auto& [parameter, stepped] : alike.packed) parameter.copy_(stepped);
    }
  }
  if (sharding_ != nullptr) sharding_->stepped();
  if (!any && sharding_ == nullptr) require_whole_gradients(name_, groups_);
  if (!any && !std::exchange(told_, true)) warn_of_no_gradients();
  end_step();
}

void Optimizer::warn_of_no_gradients() {
  const auto required = [](const ParamGroup& group) {
    return std::any_of(group.parameters.begin(), group.parameters.end(),
                       [](const Tensor& p) { return p.requires_grad(); });
  };
  if (std::any_of(groups_.begin(), groups_.end(), required)) {
    log().warn("{}: step() changes nothing, because no parameter has a gradient; call backward() before it", name_);
  } else {
    log().warn(
        "{}: step() changes nothing, because none of its {} parameters requires grad any more; make the "
        "optimizer after adapters are added or parts are frozen",
        name_, state_.size());
  }
}

/// Why a list of parameters that was captured may no longer be stepped as one; empty where it may.
std::function<std::string()> Optimizer::equal_steps(std::vector<std::size_t> list) const {
  return [this, alive = std::weak_ptr(version_), list = std::move(list)]() -> std::string {
    if (alive.expired()) return "its optimizer is gone";
    const State& first = state_[list.front()];
    const bool equal = std::all_of(list.begin(), list.end(), [&](std::size_t i) {
      return state_[i].step == first.step && state_[i].skipped == first.skipped;
    });
    return equal ? "" : fmt::format("parameters of {} have made different numbers of steps", name_);
  };
}

void Optimizer::set_lr(double lr) {
  require(name_, kSettings[0], lr);
  for (ParamGroup& group : groups_) group.lr = lr;
}

std::map<std::string, Tensor> Optimizer::state_dict() const {
  std::map<std::string, Tensor> state;
  const std::int64_t all_skipped = skipped();
  std::size_t i = 0;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    for (const Setting& s : kSettings) {
      if (always_there(s) || defaults_.*s.value != ParamGroup::kDefault)
        state[fmt::format("group.{}.{}", g, s.name)] = scalar(groups_[g].*s.value, {f64});
    }
    state[group_size_name(g)] = scalar(static_cast<double>(groups_[g].parameters.size()), {f64});
    const std::vector<std::string> names = state_names(groups_[g]);
    for (const Tensor& p : groups_[g].parameters) {
      const State& of = state_[i++];
      if (of.step == 0) continue;
      std::int64_t made = of.step - (all_skipped - of.skipped);
      state[fmt::format("{}.step", i - 1)] = scalar(static_cast<double>(made), {f64});
      for (std::size_t k = 0; k < std::min(names.size(), of.tensors.size()); ++k) {
        const Tensor x = sharding_ == nullptr ? of.tensors[k] : distributed::gather_parts(*sharding_, p, of.tensors[k]);
        if (x.defined()) state[fmt::format("{}.{}", i - 1, names[k])] = x;
      }
    }
  }
  return state;
}

void Optimizer::load_state_dict(const std::map<std::string, Tensor>& state) {
  std::vector<ParamGroup> groups = groups_;
  std::vector<State> loaded(state_.size());
  std::vector<std::string> wrong;
  std::size_t used = 0;
  /// The entry, if it exists and has the right shape.
  auto take = [&](const std::string& name, const Shape& shape) -> const Tensor* {
    auto found = state.find(name);
    if (found == state.end()) {
      wrong.push_back(name + " (missing)");
    } else if (found->second.shape() != shape) {
      wrong.push_back(fmt::format("{} {} (wanted {})", name, str(found->second.shape()), str(shape)));
    } else {
      return ++used, &found->second;
    }
    return nullptr;
  };
  GradMode off(false);
  std::size_t i = 0;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    for (const Setting& s : kSettings) {
      const std::string name = fmt::format("group.{}.{}", g, s.name);
      if (!always_there(s) && (defaults_.*s.value == ParamGroup::kDefault || !state.contains(name))) continue;
      if (const Tensor* x = take(name, {})) {
        groups[g].*s.value = x->item<double>();
        require(name_, s, groups[g].*s.value);
      }
    }
    // Parameters without a step have no entries, so only this tells a shorter list from a longer one.
    if (const std::string size = group_size_name(g); state.contains(size)) {
      const Tensor* there = take(size, {});
      if (there != nullptr && there->item<double>() != static_cast<double>(groups[g].parameters.size()))
        wrong.push_back(fmt::format("group {} ({} parameters; here are {})", g, there->item<double>(),
                                    groups[g].parameters.size()));
    }
    const std::vector<std::string> names = state_names(groups[g]);
    for (const Tensor& p : groups[g].parameters) {
      State& to = loaded[i];
      std::string step = fmt::format("{}.step", i);
      if (state.contains(step)) {
        if (const Tensor* x = take(step, {})) to.step = x->item<std::int64_t>();
        to.begun = to.step > 0;
        for (std::size_t k = 0; k < names.size(); ++k) {
          const Shape shape = sharding_ == nullptr ? state_shape(p, k) : sharding_->shape(p);
          if (const Tensor* x = take(fmt::format("{}.{}", i, names[k]), shape)) {
            Tensor own = *x;
            if (sharding_ != nullptr) {
              const distributed::Sharding::Range range = sharding_->range(p, distributed::rank());
              own = own.contiguous().view({own.numel()}).slice(0, range.begin, range.end);
            }
            to.tensors.push_back(own.to(p.device(), state_dtype(p)).clone());
            to.tensors.back().storage()->set_use(MemoryUse::optimizer);
          }
        }
      }
      ++i;
    }
  }
  if (used != state.size() || !wrong.empty()) {
    throw Error(fmt::format(
        "load_state_dict: {} entries of {} fit this optimizer's {} parameters in {} groups; wrong: {}", used,
        state.size(), state_.size(), groups_.size(), wrong.empty() ? "entries it does not know" : name_list(wrong)));
  }
  groups_ = std::move(groups);
  state_ = std::move(loaded);
  control_ = {};
  settings_changed();
}

}  // namespace etna::optim
