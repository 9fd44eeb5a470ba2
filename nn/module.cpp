#include <etna/nn/module.h>

#include <unordered_set>

#include <fmt/format.h>

#include <etna/tensor/op.h>

namespace etna::nn {
namespace {

std::string joined(const std::string& prefix, const std::string& name) {
  return prefix.empty() ? name : name.empty() ? prefix : prefix + "." + name;
}

/// Replaces storage, device and dtype of the tensor behind all handles, so that every holder of a handle sees the
/// change.
void replace(Tensor& x, const Tensor& with) {
  TensorImpl& impl = *x.impl();
  Tensor grad = x.grad();
  x.set_grad({});
  impl.storage = with.storage();
  impl.strides = with.strides();
  impl.offset = with.offset();
  impl.contiguous = with.is_contiguous();
  impl.dtype = with.dtype();
  impl.device = with.device();
  if (grad.defined()) x.set_grad(grad.detach().to(with.device()).to(with.dtype()));
}

}  // namespace

template <typename Visit>
void Module::each_tensor(const std::string& prefix, bool parameters, const Visit& visit) const {
  for (const auto& [name, member] : parameters ? parameters_ : buffers_) visit(joined(prefix, name), *member);
  for (const auto& [name, module] : modules_) module->each_tensor(joined(prefix, name), parameters, visit);
}

std::vector<NamedTensor> Module::named(bool parameters) const {
  std::vector<NamedTensor> list;
  std::unordered_set<const TensorImpl*> seen;
  each_tensor("", parameters, [&](const std::string& name, const Tensor& x) {
    if (x.defined() && seen.insert(x.impl()).second) list.push_back({name, x});
  });
  return list;
}

std::vector<NamedTensor> Module::named_parameters() const { return named(true); }
std::vector<NamedTensor> Module::named_buffers() const { return named(false); }

std::vector<Tensor> Module::parameters() const {
  std::vector<Tensor> list;
  for (const NamedTensor& p : named(true)) list.push_back(p.tensor);
  return list;
}

std::int64_t Module::num_parameters() const {
  std::int64_t count = 0;
  for (const NamedTensor& p : named(true)) count += p.tensor.numel();
  return count;
}

StateDict Module::state_dict() const {
  StateDict state;
  for (bool parameters : {true, false}) {
    for (const NamedTensor& x : named(parameters)) state[x.name] = x.tensor.detach();
  }
  return state;
}

void Module::load_state_dict(const StateDict& state, bool strict) {
  StateDict mine = state_dict();
  std::string missing, unexpected, misshapen;
  for (const auto& [name, to] : mine) {
    auto found = state.find(name);
    if (found == state.end()) {
      missing += " " + name;
    } else if (found->second.shape() != to.shape()) {
      misshapen += fmt::format(" {} {} (wanted {})", name, str(found->second.shape()), str(to.shape()));
    }
  }
  for (const auto& [name, from] : state) {
    if (!mine.contains(name)) unexpected += " " + name;
  }
  if (!misshapen.empty()) throw ShapeError("load_state_dict: shapes differ:" + misshapen);
  if (strict && !(missing.empty() && unexpected.empty())) {
    throw Error(
        fmt::format("load_state_dict: the names differ; missing:{}; not known:{}; pass strict = false to load the rest",
                    missing.empty() ? " none" : missing, unexpected.empty() ? " none" : unexpected));
  }
  GradMode off(false);
  for (auto& [name, to] : mine) {
    if (auto found = state.find(name); found != state.end()) to.copy_(found->second);
  }
}

void Module::to(Device device) {
  for (bool parameters : {true, false}) {
    for (NamedTensor& x : named(parameters)) {
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
      if (is_floating(x.tensor.dtype()) && x.tensor.dtype() != dtype) replace(x.tensor, x.tensor.detach().to(dtype));
    }
  }
}

void Module::train(bool on) {
  training_ = on;
  for (auto& [name, module] : modules_) module->train(on);
}

void Module::zero_grad() {
  for (Tensor& p : parameters()) p.set_grad({});
}

void Module::register_parameter(std::string name, Tensor& member) {
  if (!member.defined()) return;
  member.requires_grad_();
  parameters_.emplace_back(std::move(name), &member);
}

void Module::register_buffer(std::string name, Tensor& member) { buffers_.emplace_back(std::move(name), &member); }

void Module::register_module(std::string name, Module& member) {
  modules_.emplace_back(std::move(name), &member);
  if (!training_) member.train(false);
}

}  // namespace etna::nn
