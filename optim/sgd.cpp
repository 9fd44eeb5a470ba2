#include <etna/optim/sgd.h>

#include <fmt/format.h>

#include <etna/tensor/ops/optimizer/internal/optimizer.h>

namespace etna::optim {

SGD::SGD(std::vector<Tensor> parameters, SGDOptions options)
    : SGD(std::vector<ParamGroup>{{.parameters = std::move(parameters)}}, options) {}

SGD::SGD(std::vector<ParamGroup> groups, SGDOptions options)
    : Optimizer("SGD", std::move(groups), settings_of(options), options.max_grad_norm), options_(options) {
  if (options.nesterov && (options.momentum == 0 || options.dampening != 0)) {
    throw Error(fmt::format("SGD: nesterov wants momentum and no dampening, got {} and {}", options.momentum,
                            options.dampening));
  }
}

std::vector<std::string> SGD::state_names(const ParamGroup& group) const {
  return group.momentum != 0 ? std::vector<std::string>{"momentum_buffer"} : std::vector<std::string>{};
}

void SGD::update(const ParamGroup& group, const std::vector<Tensor>& list, const StepNumbers& numbers,
                 const Tensor& control) {
  if (group.momentum == 0) {
    sgd_step_(list, numbers, {.maximize = options_.maximize}, control);
    return;
  }
  momentum_step_(list, numbers,
                 {.momentum = group.momentum,
                  .dampening = options_.dampening,
                  .nesterov = options_.nesterov,
                  .maximize = options_.maximize},
                 control);
}

}  // namespace etna::optim
