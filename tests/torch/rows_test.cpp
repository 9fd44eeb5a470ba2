#include <functional>
#include <map>

#include <gtest/gtest.h>

#include <etna/autograd/autograd.h>
#include <etna/tensor/ops.h>
#include <torch/figures.h>

namespace etna {
namespace {

TEST(TorchRows, ValuesAndGradients) {
  const nlohmann::json all = figures::load("rows");
  for (Device device : figures::devices()) {
    Tensor x = figures::tensor(all["x"], device).requires_grad_();
    const Tensor weight = figures::tensor(all["weight"], device), bias = figures::tensor(all["bias"], device);
    const Tensor seed = figures::tensor(all["seed"], device);
    const std::map<std::string, std::function<Tensor()>> calls = {
        {"softmax", [&] { return softmax(x, -1); }},
        {"log_softmax", [&] { return log_softmax(x, 0); }},
        {"layer_norm", [&] { return layer_norm(x, weight, bias); }},
        {"logsumexp",
         [&] {
           return logsumexp(x, 1, true).expand({5, 7});
         }},
        {"var",
         [&] {
           return var(x, 1, true).expand({5, 7});
         }},
        {"cumsum", [&] { return cumsum(x, 1); }},
    };
    for (const auto& [name, figure] : all["cases"].items()) {
      const Tensor y = calls.at(name)();
      figures::expect_close(y, figure["value"], 1e-5, name);
      const TensorList gradients = autograd::grad(TensorList{y}, TensorList{x}, TensorList{seed});
      figures::expect_close(gradients[0], figure["gradient"], 1e-5, name + ", gradient");
    }
  }
}

}  // namespace
}  // namespace etna
