#include <etna/optim/internal/composed_step.h>

#include <cmath>

namespace etna::optim {

ComposedStep::ComposedStep(const Tensor& parameter, const Tensor& grad, const StepNumbers& numbers,
                           const Tensor& control, bool maximize) {
  const DType t = parameter.dtype() == f64 ? f64 : f32;
  x = parameter.detach().to(t);
  gradient = grad.to(t);
  lr = numbers.lr.to(t), weight_decay = numbers.weight_decay.to(t), step = numbers.step.to(t);
  const Tensor momenta = numbers.momentum.to(t);
  momentum = momenta.select(0, 0), log_momentum_ = momenta.select(0, 1), one_minus_momentum = momenta.select(0, 2);
  if (control.defined()) {
    gradient = gradient * control.select(0, 0).to(t);
    step = step - control.select(0, 2).to(t);
    skip_ = control.select(0, 3) != 0.0;
  }
  if (maximize) gradient = -gradient;
}

namespace {

// 1 - eˣ = -tanh(x/2) (1 + eˣ), which keeps its digits near x = 0.
Tensor one_minus_exp(const Tensor& x) { return -(tanh(x * 0.5) * (exp(x) + 1.0)); }

}  // namespace

Tensor ComposedStep::one_minus_power(double beta) const {
  return beta == 0 ? ones_like(step) : one_minus_exp(step * std::log(beta));
}

Tensor ComposedStep::one_minus_momentum_power() const { return one_minus_exp(step * log_momentum_); }

void ComposedStep::write(Tensor to, const Tensor& value) const {
  to.copy_(skip_.defined() ? where(skip_, to, value.to(to.dtype())) : value);
}

Tensor l2_norm(const Tensor& x) { return sqrt(sum(square(x))); }

}  // namespace etna::optim
