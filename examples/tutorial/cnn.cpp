#include <cstdio>

#include <etna/etna.h>

using namespace etna;

struct Pictures {
  Tensor x, y;  // [N, 1, 16, 16], [N]
};

// Noisy pictures of a disc (class 0) or a square (class 1), anywhere.
Pictures draw(std::int64_t count) {
  const Tensor x = arange(16).reshape({1, 1, 16}) - randint(5, 11, {count, 1, 1});
  const Tensor y = arange(16).reshape({1, 16, 1}) - randint(5, 11, {count, 1, 1});
  const Tensor kind = randint(0, 2, {count, 1, 1});
  const Tensor disc = le(square(x) + square(y), 20), box = le(maximum(abs(x), abs(y)), 4);
  const Tensor shape = where(eq(kind, 0), disc.to(f32), box.to(f32)) + randn({count, 16, 16}) * 0.3;
  return {shape.unsqueeze(1), kind.flatten()};
}

struct Net : nn::Module {
  nn::Conv2d conv1{1, 16, 3, {.padding = 1}}, conv2{16, 32, 3, {.padding = 1}};
  nn::BatchNorm2d norm{16};
  nn::Linear out{32 * 4 * 4, 2};

  Net() {
    register_module("conv1", conv1);
    register_module("norm", norm);
    register_module("conv2", conv2);
    register_module("out", out);
  }

  Tensor forward(const Tensor& x) const {
    Tensor h = max_pool2d(relu(norm(conv1(x))), 2);
    h = max_pool2d(relu(conv2(h)), 2);
    return out(h.flatten(1));
  }
};

double accuracy(Net& net, const Pictures& pictures) {
  NoGrad off;
  net.eval();
  const Tensor right = eq(argmax(net.forward(pictures.x), 1), pictures.y);
  net.train();
  return 100 * mean(right.to(f32)).item<double>();
}

int main(int argc, char** argv) {
  const Device device = select_device(argc > 1 ? argv[1] : "auto");
  manual_seed(1);
  const Pictures training = draw(4000), test = draw(500);
  const Pictures on_device = {test.x.to(device), test.y.to(device)};

  Net net;
  net.to(device);
  optim::AdamW optimizer(net.parameters(), {.lr = 2e-3});
  data::DataLoader loader(data::TensorDataset(training.x, training.y),
                          {.batch_size = 50, .shuffle = true, .seed = 1, .device = device});

  for (int epoch = 1; epoch <= 5; ++epoch) {
    Tensor total = zeros({}, device);
    for (auto [x, y] : loader) {
      Tensor loss = cross_entropy(net.forward(x), y);
      optimizer.zero_grad();
      loss.backward();
      optimizer.step();
      total += loss.detach();
    }
    std::printf("epoch %d loss %.4f, %.1f %% of the test pictures right\n", epoch,
                total.item<double>() / static_cast<double>(loader.size()), accuracy(net, on_device));
  }
  return accuracy(net, on_device) > 95 ? 0 : 1;
}
