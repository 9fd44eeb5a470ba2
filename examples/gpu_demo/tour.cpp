#include <cstdio>
#include <functional>
#include <iostream>
#include <string>
#include <vector>

#include "demo.h"

using namespace etna;

namespace {

struct Stop {
  const char* code;
  std::function<Tensor(const Tensor& x)> run;
};

/// The gradient of a small loss, which backward() leaves in x.grad().
Tensor gradient_of_tanh(const Tensor& x) {
  Tensor leaf = x.detach().clone().requires_grad_();
  sum(square(tanh(leaf))).backward();
  return leaf.grad();
}

}  // namespace

bool tour(Device device) {
  const std::vector<Stop> stops = {
      {"x", [](const Tensor& x) { return x; }},
      {"x * 2 + 1", [](const Tensor& x) { return x * 2 + 1; }},
      {"exp(-x * x)", [](const Tensor& x) { return exp(-x * x); }},
      {"sum(x, 1)", [](const Tensor& x) { return sum(x, 1); }},
      {"softmax(x, -1)", [](const Tensor& x) { return softmax(x, -1); }},
      {"x.t().matmul(x)", [](const Tensor& x) { return x.t().matmul(x); }},
      {"where(x > 0, x, 0.0)", [](const Tensor& x) { return where(x > 0, x, 0.0); }},
      {"argmax(x, 1)", [](const Tensor& x) { return argmax(x, 1); }},
      {"cumsum(x, 0)", [](const Tensor& x) { return cumsum(x, 0); }},
      {"gradient of sum(square(tanh(x)))", gradient_of_tanh},
  };
  const Tensor x = tensor({{1., -2., 0.5}, {0., 3., -1.}}).to(f32);
  bool agree = true;
  for (const Stop& stop : stops) {
    const Tensor on_cpu = stop.run(x), here = stop.run(x.to(device));
    std::cout << stop.code << "\n" << here.to(kCPU) << "\n";
    const float apart = max(abs(here.to(kCPU).to(f32) - on_cpu.to(f32))).item();
    if (apart > 1e-5F) {
      std::printf("differs from the CPU by %g\n", static_cast<double>(apart));
      agree = false;
    }
  }
  return agree;
}
