#include <etna/optim/sgd.h>

#include <etna/tensor/ops/optimizer/internal/optimizer.h>

namespace etna::optim {

Lion::Lion(std::vector<Tensor> parameters, LionOptions options)
    : Lion(std::vector<ParamGroup>{{.parameters = std::move(parameters)}}, options) {}

Lion::Lion(std::vector<ParamGroup> groups, LionOptions options)
    : Optimizer("Lion", std::move(groups), settings_of(options), options.max_grad_norm), options_(options) {}

std::vector<std::string> Lion::state_names(const ParamGroup&) const { return {"exp_avg"}; }

void Lion::update(const ParamGroup& group, const std::vector<Tensor>& list, const StepNumbers& numbers,
                  const Tensor& control) {
  lion_step_(list, numbers, {.beta1 = group.beta1, .beta2 = group.beta2, .maximize = options_.maximize}, control);
}

}  // namespace etna::optim
