#include <algorithm>

#include <fmt/format.h>

#include <etna/autograd/autograd.h>
#include <etna/nn/internal/module_hooks.h>
#include <etna/nn/module.h>

namespace etna::nn {
namespace {

TensorList same(const TensorList& in) {
  TensorList out;
  for (const Tensor& x : in) out.push_back(x.defined() ? detail::alias(x) : x);
  return out;
}

bool any_requires_grad(const TensorList& list) {
  return grad_enabled() &&
         std::any_of(list.begin(), list.end(), [](const Tensor& x) { return x.defined() && x.requires_grad(); });
}

TensorList replaced(const TensorList& by, const TensorList& list, const char* what) {
  if (by.empty()) return list;
  if (by.size() != list.size()) {
    throw Error(fmt::format("{}: a hook returned {} tensors instead of {}; return none to leave them", what, by.size(),
                            list.size()));
  }
  return by;
}

/// One call of a module with backward hooks: the gradients of its outputs wait here for those of its inputs.
struct Crossing {
  const Module* module;
  std::weak_ptr<Hooks> hooks;
  TensorList grad_outputs;

  TensorList run(TensorList grad_inputs) {
    const TensorList outputs = std::move(grad_outputs);
    grad_outputs.clear();
    const std::shared_ptr<Hooks> alive = hooks.lock();
    if (!alive) return grad_inputs;
    const auto list = alive->backward;  // a hook may remove itself
    for (const auto& [id, hook] : list)
      grad_inputs = replaced(hook(*module, grad_inputs, outputs), grad_inputs, "backward hook");
    return grad_inputs;
  }
};

/// Tensors that are all defined, and where they stand in a list: custom ops take defined tensors.
struct Defined {
  TensorList tensors;
  std::vector<std::size_t> at;
  explicit Defined(const TensorList& list) {
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (list[i].defined()) tensors.push_back(list[i]), at.push_back(i);
    }
  }
  TensorList spread(const TensorList& values, std::size_t size) const {
    TensorList all(size);
    for (std::size_t i = 0; i < at.size(); ++i) all[at[i]] = values[i];
    return all;
  }
};

/// Adds a hook to one of the lists of a module.
template <typename Hook>
HookHandle keep(std::shared_ptr<Hooks>& hooks, std::map<std::int64_t, Hook> Hooks::*list, Hook hook) {
  if (!hooks) hooks = std::make_shared<Hooks>();
  const std::int64_t id = hooks->next++;
  ((*hooks).*list).emplace(id, std::move(hook));
  return HookHandle([list, id, alive = std::weak_ptr<Hooks>(hooks)] {
    if (const std::shared_ptr<Hooks> there = alive.lock()) ((*there).*list).erase(id);
  });
}

}  // namespace

HookHandle Module::register_forward_pre_hook(ForwardPreHook hook) {
  return keep(hooks_, &Hooks::before, std::move(hook));
}
bool Module::has_hooks() const { return !hooks_->empty(); }
HookHandle Module::register_forward_hook(ForwardHook hook) { return keep(hooks_, &Hooks::after, std::move(hook)); }
HookHandle Module::register_full_backward_hook(BackwardHook hook) {
  return keep(hooks_, &Hooks::backward, std::move(hook));
}

TensorList Module::call_hooked(TensorList in, const std::function<TensorList(const TensorList&)>& forward) const {
  const std::shared_ptr<Hooks> hooks = hooks_;  // a hook may remove itself
  const auto before = hooks->before;
  for (const auto& [id, hook] : before) in = replaced(hook(*this, in), in, "forward pre-hook");

  std::shared_ptr<Crossing> crossing;
  const bool inputs_wait = any_requires_grad(in);
  if (!hooks->backward.empty()) {
    crossing = std::make_shared<Crossing>(Crossing{this, hooks, {}});
    if (inputs_wait) {
      const Defined given(in);
      const TensorList inside = autograd::custom(
          given.tensors, [](const TensorList& x) { return same(x); },
          [crossing, given, size = in.size()](const TensorList& grad) {
            const TensorList all = crossing->run(given.spread(grad, size));
            TensorList back;
            for (std::size_t i : given.at) back.push_back(all[i]);
            return back;
          },
          "module_inputs");
      in = given.spread(inside, in.size());
    }
  }
  TensorList out = forward(in);
  const auto after = hooks->after;
  for (const auto& [id, hook] : after) out = replaced(hook(*this, in, out), out, "forward hook");
  if (crossing && any_requires_grad(out)) {
    const Defined given(out);
    const TensorList outside = autograd::custom(
        given.tensors, [](const TensorList& x) { return same(x); },
        [crossing, given, inputs_wait, size = out.size(), inputs = in.size()](const TensorList& grad) {
          crossing->grad_outputs = given.spread(grad, size);
          if (!inputs_wait) crossing->run(TensorList(inputs));
          return grad;
        },
        "module_outputs");
    out = given.spread(outside, out.size());
  }
  return out;
}

}  // namespace etna::nn
