#include <etna/optim/lion.h>

#include <fmt/format.h>

#include <etna/tensor/multi_tensor.h>

namespace etna::optim {

Lion::Lion(std::vector<Tensor> parameters, LionOptions options)
    : Lion(std::vector<ParamGroup>{{.parameters = std::move(parameters)}}, options) {}

Lion::Lion(std::vector<ParamGroup> groups, LionOptions options)
    : Optimizer(
          std::move(groups),
          {.lr = options.lr, .weight_decay = options.weight_decay, .beta1 = options.beta1, .beta2 = options.beta2},
          options.max_grad_norm),
      options_(options) {
  for (double beta : {options.beta1, options.beta2}) {
    if (!(beta >= 0 && beta < 1)) throw Error(fmt::format("Lion: a beta of {} is not in [0, 1)", beta));
  }
}

std::vector<std::string> Lion::state_names(const ParamGroup&) const { return {"exp_avg"}; }

void Lion::update(const ParamGroup& group, const std::vector<Tensor>& list, const StepNumbers& numbers,
                  const Tensor& control) {
  lion_step_(list, numbers, {.beta1 = group.beta1, .beta2 = group.beta2, .maximize = options_.maximize}, control);
}

}  // namespace etna::optim
