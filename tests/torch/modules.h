#pragma once

#include <string>

#include <gtest/gtest.h>

#include <etna/autograd/autograd.h>
#include <etna/nn/module.h>
#include <torch/figures.h>

/// Modules with parameters and gradients that PyTorch computed with.
namespace etna::figures {

/// Loads parameters and buffers by PyTorch's names; every name has to fit.
inline void load_state(nn::Module& module, const nlohmann::json& figures) {
  nn::StateDict state;
  for (const auto& [name, value] : figures.items()) state[name] = tensor(value);
  module.load_state_dict(state);
}

inline std::vector<Tensor> tensors(const nlohmann::json& list, Device device) {
  std::vector<Tensor> all;
  for (const nlohmann::json& x : list) all.push_back(tensor(x, device));
  return all;
}

/// Compares outputs, and the gradients that `seeds` give for `inputs` and for the module's parameters.
inline void expect_results(const std::string& what, const nn::Module& module, const TensorList& outputs,
                           const nlohmann::json& wanted, const TensorList& seeds, TensorList inputs,
                           const nlohmann::json& input_gradients, const nlohmann::json& gradients) {
  ASSERT_EQ(outputs.size(), wanted.size()) << what;
  for (std::size_t i = 0; i < outputs.size(); ++i)
    expect_close(outputs[i], wanted[i], 1e-5, what + ", output " + std::to_string(i));
  const std::size_t count = inputs.size();
  const auto parameters = module.named_parameters();
  for (const nn::NamedTensor& p : parameters) inputs.push_back(p.tensor);
  const TensorList found = autograd::grad(outputs, inputs, seeds);
  for (std::size_t i = 0; i < count; ++i)
    expect_close(found[i], input_gradients[i], 1e-5, what + ", gradient of input " + std::to_string(i));
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const std::string& name = parameters[i].name;
    expect_close(found[count + i], gradients.at(name), 1e-5, what + ", gradient of " + name);
  }
}

}  // namespace etna::figures
