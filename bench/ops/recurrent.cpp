#include <memory>

#include <fmt/format.h>

#include <etna/autograd/autograd.h>
#include <etna/nn/recurrent.h>

#include "case.h"

/// Recurrent networks: two layers of 512, 128 steps; and the three layers of AWD-LSTM (Merity et al. 2018). Batches of
/// 64 and 80 on a GPU, of 8 on the host. As captured steps: eagerly, a GPU waits for the host at every step.
namespace bench {

using namespace etna;

namespace {

struct Sizes {
  std::string name;
  RecurrentMode mode;
  std::int64_t input, hidden, layers, steps, batch;
};

struct Network {
  std::unique_ptr<nn::RecurrentModule> module;
  Tensor x;
};

std::shared_ptr<Network> network(const Sizes& s, Device device, DType t) {
  auto made = std::make_shared<Network>();
  const nn::RecurrentOptions options{.num_layers = s.layers};
  manual_seed(1);
  if (s.mode == RecurrentMode::gru) {
    made->module = std::make_unique<nn::GRU>(s.input, s.hidden, options);
  } else {
    made->module = std::make_unique<nn::LSTM>(s.input, s.hidden, options);
  }
  made->module->to(device);
  made->module->to(t);
  made->x = normal({s.steps, device.is_cpu() ? 8 : s.batch, s.input}, device, t).requires_grad_();
  return made;
}

}  // namespace

Cases recurrent_cases(const Workload&) {
  const Sizes all[] = {{"lstm_2x512", RecurrentMode::lstm, 512, 512, 2, 128, 64},
                       {"lstm_400_3x1150", RecurrentMode::lstm, 400, 1150, 3, 70, 80},
                       {"gru_2x512", RecurrentMode::gru, 512, 512, 2, 128, 64}};
  Cases cases;
  for (DType t : {f32, bf16}) {
    for (const Sizes& s : all) {
      // Multiply-adds of a GPU's batch.
      double flops = 0;
      for (std::int64_t layer = 0; layer < s.layers; ++layer) {
        flops += 2.0 * static_cast<double>(s.steps * s.batch * gates_of(s.mode) * s.hidden) *
                 static_cast<double>((layer == 0 ? s.input : s.hidden) + s.hidden);
      }
      cases.push_back({fmt::format("{}/{}", s.name, name(t)), 0, flops,
                       [=](Device d) { return untaped([n = network(s, d, t)] { n->module->forward(n->x); }); }});
      cases.back().captured = true;
      cases.push_back({fmt::format("{}_with_gradients/{}", s.name, name(t)), 0, 3 * flops, [=](Device d) {
                         auto n = network(s, d, t);
                         Shape shape = n->x.shape();
                         shape.back() = s.hidden;
                         TensorList inputs = n->module->parameters();
                         inputs.push_back(n->x);
                         return [n, inputs, seeds = TensorList{ones(shape, {t, d})}] {
                           autograd::grad(TensorList{n->module->forward(n->x).output}, inputs, seeds);
                         };
                       }});
      cases.back().captured = true;
    }
  }
  return cases;
}

}  // namespace bench
