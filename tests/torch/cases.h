#pragma once

#include <functional>
#include <map>
#include <string>

#include <gtest/gtest.h>

#include <etna/autograd/autograd.h>
#include <etna/tensor/op.h>
#include <torch/figures.h>

/// Cases {"inputs": [...], "value": ..., "seed": ..., "gradients": [...]} of a file of figures.
namespace etna::figures {

using Function = std::function<Tensor(const TensorList&)>;

/// Compares the value and the gradient of each input, in `dtype` on `device`.
inline void expect_case(const nlohmann::json& figure, const Function& f, Device device, DType dtype, double tolerance,
                        const std::string& what) {
  TensorList inputs;
  for (const nlohmann::json& input : figure.at("inputs"))
    inputs.push_back(tensor(input, device, dtype).requires_grad_());
  const Tensor y = f(inputs);
  expect_close(y, figure.at("value"), tolerance, what);
  const TensorList found = autograd::grad(TensorList{y}, inputs, TensorList{tensor(figure.at("seed"), device, dtype)});
  for (std::size_t i = 0; i < found.size(); ++i) {
    expect_close(found[i], figure.at("gradients")[i], tolerance, what + ", gradient " + std::to_string(i));
  }
}

}  // namespace etna::figures
