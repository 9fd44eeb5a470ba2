#include <etna/nn/parameters.h>

#include <fmt/format.h>

namespace etna::nn {

template <typename Visit>
void WithTensors::each_member(Module& module, const std::string& prefix, const Visit& visit) {
  const auto named = [&prefix](const std::string& name) {
    return prefix.empty() ? name : name.empty() ? prefix : prefix + "." + name;
  };
  for (auto& [name, member, place] : module.parameters_) visit(named(name), *member);
  for (auto& [name, member, place] : module.buffers_) visit(named(name), *member);
  for (auto& [name, child] : module.modules_) each_member(*child, named(name), visit);
}

WithTensors::WithTensors(Module& module, const StateDict& tensors) {
  // All is checked before anything changes.
  for (const auto& entry : tensors) {
    const std::string& name = entry.first;
    const Tensor& tensor = entry.second;
    Tensor found;
    each_member(module, "", [&](const std::string& at, Tensor& member) {
      if (at == name && member.defined()) found = member;
    });
    if (!found.defined()) throw Error(fmt::format("functional_call: the module has no parameter or buffer '{}'", name));
    if (!tensor.defined() || tensor.shape() != found.shape()) {
      throw ShapeError(fmt::format("functional_call: '{}' is {}, {} was given", name, str(found.shape()),
                                   tensor.defined() ? str(tensor.shape()) : "an undefined tensor"));
    }
  }
  std::vector<std::pair<const TensorImpl*, Tensor>> replaced;
  each_member(module, "", [&](const std::string& at, Tensor& member) {
    const auto found = tensors.find(at);
    if (found != tensors.end() && member.defined()) replaced.emplace_back(member.impl(), found->second);
  });
  each_member(module, "", [&](const std::string&, Tensor& member) {
    for (const auto& entry : replaced) {
      if (member.impl() != entry.first) continue;
      before_.emplace_back(&member, member);
      member = entry.second;
      break;
    }
  });
}

WithTensors::~WithTensors() {
  for (auto at = before_.rbegin(); at != before_.rend(); ++at) *at->first = at->second;
}

}  // namespace etna::nn
