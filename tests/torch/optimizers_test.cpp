#include <cmath>
#include <functional>
#include <map>
#include <memory>

#include <gtest/gtest.h>

#include <etna/autograd/autograd.h>
#include <etna/optim/optim.h>
#include <etna/tensor/capture.h>
#include <etna/tensor/op.h>
#include <etna/tensor/ops.h>
#include <torch/figures.h>

namespace etna {
namespace {

using OptimizerPtr = std::unique_ptr<optim::Optimizer>;
using Make = std::function<OptimizerPtr(std::vector<Tensor>)>;

template <typename Optimizer, typename Options>
Make optimizers_make(Options options) {
  return
      [options](std::vector<Tensor> parameters) { return std::make_unique<Optimizer>(std::move(parameters), options); };
}

/// Two groups, one for each parameter, with settings of their own.
template <typename Optimizer, typename Options>
Make make_groups(optim::ParamGroup first, optim::ParamGroup second, Options options) {
  return [=](const std::vector<Tensor>& parameters) {
    std::vector<optim::ParamGroup> groups = {first, second};
    groups[0].parameters = {parameters[0]}, groups[1].parameters = {parameters[1]};
    return std::make_unique<Optimizer>(std::move(groups), options);
  };
}

const std::map<std::string, Make>& optimizers_cases() {
  using namespace optim;
  static const std::map<std::string, Make> all = {
      {"sgd", optimizers_make<SGD>(SGDOptions{.lr = 0.1, .momentum = 0.9, .weight_decay = 0.1, .nesterov = true})},
      {"sgd maximize", optimizers_make<SGD>(SGDOptions{.lr = 0.001, .maximize = true})},
      {"adam", optimizers_make<Adam>(AdamOptions{.lr = 0.05, .weight_decay = 0.1})},
      {"adam amsgrad", optimizers_make<Adam>(AdamOptions{.lr = 0.05, .betas = {0.8, 0.95}, .amsgrad = true})},
      {"adam maximize", optimizers_make<Adam>(AdamOptions{.lr = 0.01, .weight_decay = 0.1, .maximize = true})},
      {"adamw", optimizers_make<AdamW>(AdamWOptions{.lr = 0.05, .weight_decay = 0.1})},
      {"adamw amsgrad", optimizers_make<AdamW>(AdamWOptions{.lr = 0.05, .weight_decay = 0.1, .amsgrad = true})},
      {"adagrad", optimizers_make<Adagrad>(AdagradOptions{
                      .lr = 0.1, .lr_decay = 0.01, .weight_decay = 0.1, .initial_accumulator_value = 0.5})},
      {"rmsprop", optimizers_make<RMSprop>(RMSpropOptions{.lr = 0.01, .weight_decay = 0.1})},
      {"rmsprop momentum", optimizers_make<RMSprop>(RMSpropOptions{.lr = 0.01, .alpha = 0.9, .momentum = 0.8})},
      {"rmsprop centered",
       optimizers_make<RMSprop>(RMSpropOptions{.lr = 0.01, .alpha = 0.9, .eps = 1e-2, .centered = true})},
      {"rmsprop centered momentum", optimizers_make<RMSprop>(RMSpropOptions{
                                        .lr = 0.01, .alpha = 0.9, .eps = 1e-2, .momentum = 0.5, .centered = true})},
      {"adadelta", optimizers_make<Adadelta>(AdadeltaOptions{.weight_decay = 0.1})},
      {"adamax", optimizers_make<Adamax>(AdamaxOptions{.lr = 0.05, .weight_decay = 0.1})},
      {"nadam", optimizers_make<NAdam>(NAdamOptions{.lr = 0.05, .weight_decay = 0.1})},
      {"nadam fast decay", optimizers_make<NAdam>(NAdamOptions{.lr = 0.05, .momentum_decay = 0.5})},
      {"radam", optimizers_make<RAdam>(RAdamOptions{.lr = 0.05, .weight_decay = 0.1})},
      {"radam short", optimizers_make<RAdam>(RAdamOptions{.lr = 0.05, .betas = {0.8, 0.9}})},
      {"asgd", optimizers_make<ASGD>(ASGDOptions{.lr = 0.1, .lambd = 1e-2, .t0 = 20, .weight_decay = 0.1})},
      {"rprop", optimizers_make<Rprop>(RpropOptions{.lr = 0.01})},
      {"sgd groups",
       make_groups<SGD>({.lr = 0.02, .momentum = 0.5}, {.momentum = 0}, SGDOptions{.lr = 0.1, .momentum = 0.9})},
      {"adamw groups",
       make_groups<AdamW>({.beta1 = 0.5, .beta2 = 0.9, .eps = 0.1}, {.weight_decay = 0.3}, AdamWOptions{.lr = 0.05})},
      {"rmsprop groups", make_groups<RMSprop>({.momentum = 0.5}, {.eps = 1e-2}, RMSpropOptions{.lr = 0.01})},
      {"radam groups", make_groups<RAdam>({.beta1 = 0.8, .beta2 = 0.9}, {.lr = 0.02}, RAdamOptions{.lr = 0.05})},
      {"lion", optimizers_make<Lion>(LionOptions{.lr = 0.01, .weight_decay = 0.1})},
      {"lamb", optimizers_make<LAMB>(LAMBOptions{.lr = 0.02})},
      {"adafactor", optimizers_make<Adafactor>(AdafactorOptions{.lr = 0.05, .eps1 = 0x1p-23, .weight_decay = 0.1})},
      {"muon", optimizers_make<Muon>(MuonOptions{.lr = 0.02})},
      {"muon plain", optimizers_make<Muon>(MuonOptions{
                         .lr = 0.02, .weight_decay = 0, .momentum = 0.9, .nesterov = false, .match_rms_adamw = true})},
  };
  return all;
}

/// The script's 100 steps.
void follow(const nlohmann::json& all, const std::string& name, Device device, DType dtype, bool captured,
            double tolerance) {
  const nlohmann::json& wanted = all["cases"][name];
  std::vector<Tensor> parameters, bias;
  for (std::size_t i = 0; i < wanted["1"].size(); ++i) {
    parameters.push_back(figures::tensor(all["start"][i], device, dtype).requires_grad_());
    bias.push_back(figures::tensor(all["bias"][i], device, dtype));
  }
  const OptimizerPtr optimizer = optimizers_cases().at(name)(parameters);
  int steps = 0;
  const auto step = [&] {
    GradMode off(false);
    const Tensor wave = each_step([&] { return std::cos(0.7 * ++steps); }, {dtype, device});
    for (std::size_t i = 0; i < parameters.size(); ++i)
      parameters[i].set_grad(parameters[i] * 0.5 + bias[i] * wave + 0.1);
    optimizer->step();
  };
  auto replayed = capture(step, {.device = device});
  for (int t = 1; t <= 100; ++t) {
    if (captured)
      replayed();
    else
      step();
    const std::string key = std::to_string(t);
    if (!wanted.contains(key)) continue;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      figures::expect_close(parameters[i], wanted[key][i], tolerance,
                            name + " on " + device.str() + (captured ? ", captured" : "") + ", step " + key);
    }
  }
}

TEST(TorchOptimizers, FollowPyTorchInF64) {
  const nlohmann::json all = figures::load("optimizers");
  ASSERT_EQ(all["cases"].size(), optimizers_cases().size());
  // PyTorch keeps the rate of ASGD in f32.
  for (const auto& [name, unused] : optimizers_cases())
    follow(all, name, kCPU, f64, false, name == "asgd" ? 1e-6 : 1e-11);
}

TEST(TorchOptimizers, FollowPyTorchInF32) {
  const nlohmann::json all = figures::load("optimizers");
  for (Device device : figures::devices()) {
    for (const auto& [name, unused] : optimizers_cases()) follow(all, name, device, f32, false, 1e-5);
  }
}

TEST(TorchOptimizers, FollowPyTorchCaptured) {
  const nlohmann::json all = figures::load("optimizers");
  for (Device device : figures::devices()) {
    for (const auto& [name, unused] : optimizers_cases()) follow(all, name, device, f32, true, 1e-5);
  }
}

void minimize(const nlohmann::json& all, const char* name, Device device, DType dtype, optim::LBFGSOptions options,
              double tolerance) {
  const nlohmann::json& wanted = all["lbfgs"][name];
  Tensor x = (figures::tensor(all["start"][1], device, dtype) * 0.5).requires_grad_();
  optim::LBFGS optimizer({x}, options);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const Tensor loss = optimizer.step([&] {
      optimizer.zero_grad();
      const Tensor a = x.slice(0, 0, 6), b = x.slice(0, 1, 7);
      Tensor y = sum(square(b - square(a)) * 10.0 + square(1.0 - a));
      y.backward();
      return y;
    });
    figures::expect_close(loss, wanted[i]["loss"], tolerance, name);
    figures::expect_close(x, wanted[i]["x"], tolerance, name);
  }
}

TEST(TorchOptimizers, FollowPyTorchsLBFGS) {
  const nlohmann::json all = figures::load("optimizers");
  const optim::LBFGSOptions wolfe{.max_iter = 4, .line_search = optim::LineSearch::strong_wolfe};
  const optim::LBFGSOptions shorter{.max_iter = 6, .history_size = 2, .line_search = optim::LineSearch::strong_wolfe};
  const optim::LBFGSOptions plain{.lr = 0.1, .max_iter = 4};
  minimize(all, "wolfe", kCPU, f64, wolfe, 1e-9);
  minimize(all, "wolfe short history", kCPU, f64, shorter, 1e-9);
  minimize(all, "plain", kCPU, f64, plain, 1e-9);
  // In f32 rounding errors grow with every iteration.
  for (Device device : figures::devices()) minimize(all, "plain", device, f32, plain, 1e-3);
}

}  // namespace
}  // namespace etna
