#include <etna/nn/nn.h>
#include <etna/optim/optim.h>
#include <etna/tensor/autocast.h>
#include <etna/tensor/ops.h>

#include "measure.h"

namespace bench {

using namespace etna;

/// One training step of a network of Fashion-MNIST's size; bf16 by autocast.
void small_cnn(const Setting& setting, const Print& print) {
  manual_seed(1);
  nn::Sequential model;
  model.add<nn::Conv2d>(1, 32, 3, nn::ConvOptions{.padding = 1}).add<nn::ReLU>().add<nn::MaxPool2d>(2);
  model.add<nn::Conv2d>(32, 64, 3, nn::ConvOptions{.padding = 1}).add<nn::ReLU>().add<nn::MaxPool2d>(2);
  model.add<nn::Flatten>().add<nn::Linear>(3136, 128).add<nn::ReLU>().add<nn::Linear>(128, 10);
  model.to(setting.device);
  optim::AdamW optimizer(model.parameters(), {.lr = 1e-3});
  const Tensor x = randn({128, 1, 28, 28}).to(setting.device), y = randint(0, 10, {128}).to(setting.device);
  const auto step = [&] {
    optimizer.zero_grad();
    Tensor loss;
    if (setting.dtype == f32) {
      loss = cross_entropy(model(x), y);
    } else {
      Autocast lower(setting.dtype);
      loss = cross_entropy(model(x), y);
    }
    loss.backward();
    optimizer.step();
    return TensorList{loss.detach()};
  };
  Row row{"cnn", "fashion-mnist cnn, batch 128, one step", setting.dtype};
  row.forward_ms = milliseconds(setting, step);
  print(row);
}

}  // namespace bench
