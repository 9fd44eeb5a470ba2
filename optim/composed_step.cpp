#include <etna/optim/composed_step.h>

#include <cmath>

namespace etna::optim {

ComposedStep::ComposedStep(const Tensor& parameter, const Tensor& grad, const StepNumbers& numbers,
                           const Tensor& control, bool maximize) {
  const DType t = parameter.dtype() == f64 ? f64 : f32;
  x = parameter.detach().to(t);
  gradient = grad.to(t);
  lr = numbers.lr.to(t), weight_decay = numbers.weight_decay.to(t), step = numbers.step.to(t);
  if (control.defined()) {
    gradient = gradient * control.select(0, 0).to(t);
    step = step - control.select(0, 2).to(t);
    skip_ = control.select(0, 3) != 0.0;
  }
  if (maximize) gradient = -gradient;
}

// 1 - eˣ = -tanh(x/2) (1 + eˣ), which keeps its digits near x = 0.
Tensor ComposedStep::one_minus_power(double beta) const {
  if (beta == 0) return ones_like(step);
  const Tensor exponent = step * std::log(beta);
  return -(tanh(exponent * 0.5) * (exp(exponent) + 1.0));
}

void ComposedStep::write(Tensor to, const Tensor& value) const {
  to.copy_(skip_.defined() ? where(skip_, to, value.to(to.dtype())) : value);
}

Tensor l2_norm(const Tensor& x) { return sqrt(sum(square(x))); }

}  // namespace etna::optim
