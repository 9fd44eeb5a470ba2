#include <cstdio>

#include <etna/etna.h>

int main() {
  etna::manual_seed(1);
  etna::Tensor x = etna::randn({64, 8}), y = etna::sum(x, {1}, true);
  etna::nn::Linear model(8, 1);
  etna::optim::SGD optimizer(model.parameters(), {.lr = 0.1});
  float first = 0, last = 0;
  for (int step = 0; step < 50; ++step) {
    etna::Tensor loss = etna::mse_loss(model(x), y);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    last = loss.item();
    if (step == 0) first = last;
  }
  std::printf("loss %g -> %g\n", static_cast<double>(first), static_cast<double>(last));
  return last < first / 100 ? 0 : 1;
}
