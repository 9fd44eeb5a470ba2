#include <etna/optim/adam.h>

#include <etna/optim/internal/composed_step.h>
#include <etna/tensor/ops/optimizer/internal/optimizer.h>

namespace etna::optim {

LAMB::LAMB(std::vector<Tensor> parameters, LAMBOptions options)
    : LAMB(std::vector<ParamGroup>{{.parameters = std::move(parameters)}}, options) {}

LAMB::LAMB(std::vector<ParamGroup> groups, LAMBOptions options)
    : Optimizer("LAMB", std::move(groups), settings_of(options), options.max_grad_norm), options_(options) {}

std::vector<std::string> LAMB::state_names(const ParamGroup&) const { return {"exp_avg", "exp_avg_sq"}; }

void LAMB::update(const ParamGroup& group, const std::vector<Tensor>& list, const StepNumbers& numbers,
                  const Tensor& control) {
  for (std::size_t i = 0; i < list.size(); i += 4) {
    if (list[i].numel() == 0) continue;
    const ComposedStep step(list[i], list[i + 1], numbers, control, options_.maximize);
    const Tensor &m = list[i + 2], &v = list[i + 3], &g = step.gradient;
    const Tensor first = m + (g - m) * step.one_minus_momentum;
    const Tensor second = v + (square(g) - v) * (1 - group.beta2);
    const Tensor root = sqrt(second / step.one_minus_power(group.beta2)) + group.eps;
    const Tensor u = first / step.one_minus_momentum_power() / root + step.x * step.weight_decay;
    const Tensor x_norm = l2_norm(step.x), u_norm = l2_norm(u);
    const Tensor both = logical_and(x_norm > 0.0, u_norm > 0.0);
    const Tensor trust = where(both, x_norm / u_norm, ones_like(x_norm));
    step.write(list[i], step.x - u * (step.lr * trust));
    step.write(m, first);
    step.write(v, second);
  }
}

}  // namespace etna::optim
