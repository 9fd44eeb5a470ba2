#include <cmath>
#include <cstdio>

#include "snake.h"

// Fits sin(x) on [-3π, 3π] with a small network whose activation is an op of this program, and checks the op's
// kernels and gradients first.
namespace {

using namespace etna;

struct Net : nn::Module {
  nn::Linear hidden{1, 32}, out{32, 1};
  Tensor alpha = ones({32});
  Net() {
    register_module("hidden", hidden);
    register_module("out", out);
    register_parameter("alpha", &Net::alpha);
  }
  Tensor forward(const Tensor& x) const { return out(snake(hidden(x), alpha)); }
};

bool agrees_with_the_reference(Device device) {
  manual_seed(1);
  const Tensor x = randn({7, 5}), alpha = rand({5}) + 0.5;
  const Tensor wanted = x + square(sin(alpha * x)) / alpha;
  Tensor a = x.to(device).requires_grad_(), b = alpha.to(device).requires_grad_();
  const Tensor seed = randn({7, 5}).to(device);
  const Tensor composed = a + square(sin(b * a)) / b, kernel = snake(a, b);
  const float error = max(abs(kernel.to(kCPU) - wanted)).item();
  const TensorList got = autograd::grad(TensorList{kernel}, TensorList{a, b}, TensorList{seed});
  const TensorList want = autograd::grad(TensorList{composed}, TensorList{a, b}, TensorList{seed});
  const float slope = std::fmax(max(abs(got[0] - want[0])).item(), max(abs(got[1] - want[1])).item());
  std::printf("%s: snake differs from the composition by %.1e, its gradients by %.1e\n", device.str().c_str(),
              static_cast<double>(error), static_cast<double>(slope));
  return error < 1e-5F && slope < 1e-4F;
}

}  // namespace

int main(int argc, char** argv) try {
  const Device device = select_device(argc > 1 ? argv[1] : "auto");
  if (!agrees_with_the_reference(device)) return 1;

  manual_seed(2);
  Net net;
  net.to(device);
  const Tensor x = ((arange(256.0) / 255.0 * 2.0 - 1.0) * (3 * std::acos(-1.0))).reshape({256, 1}).to(device);
  const Tensor y = sin(x);
  optim::Adam adam(net.parameters(), {.lr = 0.01});
  auto step = capture([&] {
    adam.zero_grad();
    Tensor loss = mse_loss(net.forward(x), y);
    loss.backward();
    adam.step();
    return TensorList{loss.detach()};
  });
  const float first = step()[0].item();
  float last = first;
  for (int i = 0; i < 600; ++i) last = step()[0].item();
  std::printf("loss %g -> %g in 600 captured steps\n", static_cast<double>(first), static_cast<double>(last));
  return last < first / 20 ? 0 : 1;
} catch (const etna::Error& error) {
  std::fprintf(stderr, "custom_op: %s\n", error.what());
  return 1;
}
