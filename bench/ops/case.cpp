#include "case.h"

#include <utility>

#include <etna/autograd/autograd.h>

namespace bench {

using namespace etna;

Tensor normal(Shape shape, Device device, DType dtype) {
  manual_seed(1);
  return randn(shape).to(device, dtype);
}

std::function<void()> untaped(std::function<void()> f) {
  return [f = std::move(f)] {
    NoGrad no_grad;
    f();
  };
}

std::function<void()> backward_of(const Tensor& y, std::vector<Tensor> inputs) {
  Tensor grad = ones_like(y).detach();
  return [y, inputs = std::move(inputs), grad] {
    const Tensor outputs[] = {y};
    const Tensor grads[] = {grad};
    autograd::grad(outputs, inputs, grads, /*retain_graph=*/true);
  };
}

Cases all_cases(const Workload& w) {
  Cases all;
  for (auto topic : {elementwise_cases, row_cases, gemm_cases, attention_cases, indexing_cases, loss_cases,
                     optimizer_cases, recurrent_cases}) {
    Cases cases = topic(w);
    all.insert(all.end(), cases.begin(), cases.end());
  }
  return all;
}

}  // namespace bench
