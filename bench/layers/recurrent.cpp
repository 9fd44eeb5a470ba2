#include <fmt/format.h>

#include <etna/nn/recurrent.h>
#include <etna/tensor/ops.h>

#include "measure.h"

namespace bench {

using namespace etna;

namespace {

template <typename Network>
void add(const Setting& setting, const Print& print, const std::string& name, Network& network, Shape shape) {
  network.to(setting.device);
  network.to(setting.dtype);
  const Tensor x = randn(shape).to(setting.device, setting.dtype).requires_grad_();
  std::vector<Tensor> leaves = network.parameters();
  leaves.push_back(x);
  print(timed(
      setting, "lstm", name, [&] { return network(x).output; }, leaves));
}

}  // namespace

void recurrent(const Setting& setting, const Print& print) {
  manual_seed(1);
  const bool cpu = setting.device.is_cpu();
  const std::int64_t batch = cpu ? 8 : 64, words = cpu ? 8 : 80;
  nn::LSTM two(512, 512, {.num_layers = 2});
  add(setting, print, fmt::format("2 layers 512 T128 B{}", batch), two, {128, batch, 512});
  nn::LSTM three(400, 1150, {.num_layers = 3});
  add(setting, print, "3 layers 400->1150 T70 B80", three, {70, words, 400});
  nn::GRU gru(512, 512, {.num_layers = 2});
  add(setting, print, fmt::format("GRU 2 layers 512 T128 B{}", batch), gru, {128, batch, 512});
}

}  // namespace bench
