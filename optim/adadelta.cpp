#include <etna/optim/adagrad.h>

#include <fmt/format.h>

#include <etna/tensor/ops/optimizer/internal/optimizer.h>

namespace etna::optim {

Adadelta::Adadelta(std::vector<Tensor> parameters, AdadeltaOptions options)
    : Adadelta(std::vector<ParamGroup>{{.parameters = std::move(parameters)}}, options) {}

Adadelta::Adadelta(std::vector<ParamGroup> groups, AdadeltaOptions options)
    : Optimizer("Adadelta", std::move(groups), settings_of(options), options.max_grad_norm), options_(options) {
  if (!(options.rho >= 0 && options.rho <= 1))
    throw Error(fmt::format("Adadelta: a rho of {} is not in [0, 1]", options.rho));
}

std::vector<std::string> Adadelta::state_names(const ParamGroup&) const { return {"square_avg", "acc_delta"}; }

void Adadelta::update(const ParamGroup& group, const std::vector<Tensor>& list, const StepNumbers& numbers,
                      const Tensor& control) {
  adadelta_step_(list, numbers, {.rho = options_.rho, .eps = group.eps, .maximize = options_.maximize}, control);
}

}  // namespace etna::optim
