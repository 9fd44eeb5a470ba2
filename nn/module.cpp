#include <etna/nn/module.h>

#include <algorithm>
#include <typeinfo>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>

#include <etna/dist/sharding.h>
#include <etna/nn/internal/module_identity.h>
#include <etna/tensor/internal/capture_hooks.h>
#include <etna/tensor/internal/name_list.h>
#include <etna/tensor/op.h>

namespace etna::nn {
namespace {

std::string module_joined(const std::string& prefix, const std::string& name) {
  return prefix.empty() ? name : name.empty() ? prefix : prefix + "." + name;
}

/// Replaces storage, device and dtype of the tensor behind all handles, so that every holder of a handle sees the
/// change.
void replace(Tensor& x, const Tensor& with) {
  TensorImpl& impl = *x.impl();
  Tensor grad = x.grad();
  x.set_grad({});
  impl.storage = with.storage();
  impl.storage->set_use(MemoryUse::weights);
  impl.strides = with.strides();
  impl.offset = with.offset();
  impl.contiguous = with.is_contiguous();
  impl.dtype = with.dtype();
  impl.device = with.device();
  if (grad.defined()) x.set_grad(grad.detach().to(with.device()).to(with.dtype()));
}

}  // namespace

template <typename Visit>
void Module::each_tensor(const std::string& prefix, bool parameters, const Visit& visit, bool recurse) const {
  for (const auto& [name, member, place] : parameters ? parameters_ : buffers_)
    visit(module_joined(prefix, name), *member);
  if (!recurse) return;
  for (const auto& [name, module] : modules_) module->each_tensor(module_joined(prefix, name), parameters, visit);
}

std::vector<NamedTensor> Module::named(bool parameters, bool recurse) const {
  std::vector<NamedTensor> list;
  std::unordered_set<const TensorImpl*> seen;
  std::unordered_set<std::string> names;
  const auto add = [&](const std::string& name, const Tensor& x) {
    if (!x.defined() || !seen.insert(x.impl()).second) return;
    // Submodules with an empty name share one set of names.
    if (!names.insert(name).second) throw Error(fmt::format("module: two tensors have the name '{}'", name));
    list.push_back({name, x});
  };
  each_tensor("", parameters, add, recurse);
  return list;
}

void Module::require_free(const std::string& name, const char* what) const {
  if (name.find('.') != std::string::npos) {
    throw Error(fmt::format("{}: the name '{}' holds a dot, which separates the names of modules", what, name));
  }
  const auto named = [&](const TensorEntry& entry) { return entry.name == name; };
  if (std::any_of(parameters_.begin(), parameters_.end(), named) ||
      std::any_of(buffers_.begin(), buffers_.end(), named) ||
      std::any_of(modules_.begin(), modules_.end(), [&](const auto& entry) { return entry.first == name; })) {
    throw Error(fmt::format("{}: the module has something named '{}' already", what, name));
  }
}

std::vector<NamedTensor> Module::named_parameters(bool recurse) const { return named(true, recurse); }
std::vector<NamedTensor> Module::named_buffers(bool recurse) const { return named(false, recurse); }

std::vector<Tensor> Module::parameters(bool recurse) const {
  if (recurse) warn_of_unregistered();
  std::vector<Tensor> list;
  for (const NamedTensor& p : named(true, recurse)) list.push_back(p.tensor);
  return list;
}
std::vector<Tensor> Module::buffers(bool recurse) const {
  std::vector<Tensor> list;
  for (const NamedTensor& b : named(false, recurse)) list.push_back(b.tensor);
  return list;
}

std::int64_t Module::num_parameters() const {
  std::int64_t count = 0;
  for (const NamedTensor& p : named(true)) count += p.tensor.numel();
  return count;
}

namespace {

void require_whole(const NamedTensor& x) {
  if (distributed::is_divided(x.tensor))
    throw Error(
        fmt::format("'{}' is divided among the ranks by ZeRO stage 3; use the DataParallel's state_dict() and "
                    "load_state_dict(), and move the model before that is made",
                    x.name));
}

}  // namespace

StateDict Module::state_dict() const {
  StateDict state;
  for (bool parameters : {true, false}) {
    for (const NamedTensor& x : named(parameters)) {
      require_whole(x);
      state[x.name] = x.tensor.detach();
    }
  }
  return state;
}

IncompatibleKeys Module::load_state_dict(const StateDict& state, bool strict) {
  StateDict mine = state_dict();
  IncompatibleKeys left;
  std::vector<std::string> misshapen;
  for (const auto& [name, to] : mine) {
    auto found = state.find(name);
    if (found == state.end()) {
      left.missing_keys.push_back(name);
    } else if (found->second.shape() != to.shape()) {
      misshapen.push_back(fmt::format("{} {} (wanted {})", name, str(found->second.shape()), str(to.shape())));
    }
  }
  for (const auto& [name, from] : state) {
    if (!mine.contains(name)) left.unexpected_keys.push_back(name);
  }
  if (!misshapen.empty()) throw ShapeError("load_state_dict: shapes differ: " + name_list(misshapen));
  if (strict && !(left.missing_keys.empty() && left.unexpected_keys.empty())) {
    throw Error(fmt::format(
        "load_state_dict: the names differ; missing: {}; not known: {}; pass strict = false to load the rest",
        name_list(left.missing_keys), name_list(left.unexpected_keys)));
  }
  GradMode off(false);
  for (auto& [name, to] : mine) {
    if (auto found = state.find(name); found != state.end()) to.copy_(found->second);
  }
  return left;
}

void Module::copy_from(const Module& other) {
  if (parameters_.size() != other.parameters_.size() || buffers_.size() != other.buffers_.size() ||
      modules_.size() != other.modules_.size()) {
    throw Error(fmt::format(
        "clone: {} is built of other parts than the module it copies; another() must construct it the same way",
        type_name()));
  }
  identity_->training = other.identity_->training;
  for (std::size_t i = 0; i < modules_.size(); ++i) modules_[i].second->copy_from(*other.modules_[i].second);
}

std::unique_ptr<Module> Module::clone() const {
  std::unique_ptr<Module> copy = another();
  const Module& made = *copy;
  if (typeid(made) != typeid(*this)) {
    throw Error(fmt::format("clone: another() of {} made a {}; override it in every class of your own", type_name(),
                            made.type_name()));
  }
  copy->copy_from(*this);
  for (bool parameters : {true, false}) {
    std::vector<Tensor*> to;
    copy->each_tensor("", parameters,
                      [&](const std::string&, const Tensor& x) { to.push_back(const_cast<Tensor*>(&x)); });
    std::size_t i = 0;
    std::unordered_map<const TensorImpl*, Tensor> shared;  // of this module's to the copy's
    each_tensor("", parameters, [&](const std::string&, const Tensor& x) {
      Tensor& target = *to[i++];
      if (!x.defined()) {
        target = {};
      } else if (const auto made = shared.find(x.impl()); made != shared.end()) {
        target = made->second;
      } else {
        // another() may have handed over this module's own tensor.
        if (!target.defined() || target.impl() == x.impl() || target.shape() != x.shape()) target = empty(x.shape());
        replace(target, x.detach().clone());
        target.requires_grad_(x.requires_grad());
        shared.emplace(x.impl(), target);
      }
    });
  }
  return copy;
}

void Module::to(Device device) {
  for (bool parameters : {true, false}) {
    for (NamedTensor& x : named(parameters)) {
      require_whole(x);
      if (x.tensor.device() != device) replace(x.tensor, x.tensor.detach().to(device));
    }
  }
}

void Module::to(DType dtype) {
  if (!is_floating(dtype)) {
    throw DtypeError(fmt::format("to: {} is no floating dtype; parameters cannot hold it", name(dtype)));
  }
  for (bool parameters : {true, false}) {
    for (NamedTensor& x : named(parameters)) {
      require_whole(x);
      if (is_floating(x.tensor.dtype()) && x.tensor.dtype() != dtype) replace(x.tensor, x.tensor.detach().to(dtype));
    }
  }
}

bool Module::training() const {
  if (capturing()) note_mode(capture_hooks::Touch::read);
  return identity_->training != 0;
}

void Module::note_mode(capture_hooks::Touch touch) const {
  const capture_hooks::Setting training(identity_, &identity_->training);
  capture_hooks::note_setting(training, touch, [type = type_name()](std::int64_t now) {
    return fmt::format("{} is in {} mode now", type, now != 0 ? "train" : "eval");
  });
}

void Module::train(bool on) {
  if (capturing()) note_mode(capture_hooks::Touch::write);
  if (std::exchange(identity_->training, on ? 1 : 0) != (on ? 1 : 0)) capture_hooks::changed();
  for (auto& [name, module] : modules_) module->train(on);
}

void Module::zero_grad() {
  for (Tensor& p : parameters()) p.set_grad({});
}

void Module::requires_grad_(bool on) {
  for (Tensor& p : parameters()) p.requires_grad_(on);
}

void Module::register_parameter(std::string name, Tensor& member, Place place) {
  if (name.empty()) throw Error("register_parameter: the name is empty");
  require_free(name, "register_parameter");
  if (!member.defined()) return;
  member.requires_grad_();
  member.storage()->set_use(MemoryUse::weights);
  parameters_.push_back({std::move(name), &member, place});
}

void Module::register_buffer(std::string name, Tensor& member, Place place) {
  if (name.empty()) throw Error("register_buffer: the name is empty");
  require_free(name, "register_buffer");
  if (member.defined()) member.storage()->set_use(MemoryUse::weights);
  buffers_.push_back({std::move(name), &member, place});
}

void Module::register_module(std::string name, Module& member, Place place) {
  if (!name.empty()) require_free(name, "register_module");
  modules_.emplace_back(std::move(name), &member);
  claim(member, place);
  if (identity_->training == 0) member.train(false);
}

void Module::unregister(const std::string& name) {
  const auto named = [&](const TensorEntry& entry) { return entry.name == name; };
  std::erase_if(parameters_, named);
  std::erase_if(buffers_, named);
  for (const auto& [at, module] : modules_) {
    if (at == name) std::erase(module->holders_, this);
  }
  std::erase_if(modules_, [&](const auto& entry) { return entry.first == name; });
}

std::int64_t checked_size(const char* module, const char* argument, std::int64_t size, std::int64_t least) {
  if (size >= least) return size;
  const std::string wanted = least == 0 ? "not be negative" : fmt::format("be at least {}", least);
  throw ShapeError(fmt::format("{}: {} is {}; it must {}", module, argument, size, wanted));
}

std::string Module::extra_repr() const { return ""; }

}  // namespace etna::nn
