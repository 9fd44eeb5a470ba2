#include <etna/optim/adagrad.h>

#include <fmt/format.h>

#include <etna/tensor/ops/optimizer/internal/optimizer.h>

namespace etna::optim {

Rprop::Rprop(std::vector<Tensor> parameters, RpropOptions options)
    : Rprop(std::vector<ParamGroup>{{.parameters = std::move(parameters)}}, options) {}

Rprop::Rprop(std::vector<ParamGroup> groups, RpropOptions options)
    : Optimizer("Rprop", std::move(groups), settings_of(options), options.max_grad_norm), options_(options) {
  if (!(options.eta_minus > 0 && options.eta_minus < 1 && options.eta_plus > 1)) {
    throw Error(fmt::format("Rprop: eta_minus {} and eta_plus {}; wanted are 0 < eta_minus < 1 < eta_plus",
                            options.eta_minus, options.eta_plus));
  }
  if (!(options.step_min >= 0 && options.step_min <= options.step_max)) {
    throw Error(fmt::format("Rprop: steps from {} to {}; wanted are 0 <= step_min <= step_max", options.step_min,
                            options.step_max));
  }
}

std::vector<std::string> Rprop::state_names(const ParamGroup&) const { return {"prev", "step_size"}; }

void Rprop::update(const ParamGroup&, const std::vector<Tensor>& list, const StepNumbers& numbers,
                   const Tensor& control) {
  rprop_step_(list, numbers,
              {.eta_minus = options_.eta_minus,
               .eta_plus = options_.eta_plus,
               .step_min = options_.step_min,
               .step_max = options_.step_max,
               .maximize = options_.maximize},
              control);
}

}  // namespace etna::optim
