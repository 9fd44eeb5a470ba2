#include <etna/optim/adam.h>

#include <fmt/format.h>

#include <etna/tensor/ops/optimizer/internal/optimizer.h>

namespace etna::optim {

NAdam::NAdam(std::vector<Tensor> parameters, NAdamOptions options)
    : NAdam(std::vector<ParamGroup>{{.parameters = std::move(parameters)}}, options) {}

NAdam::NAdam(std::vector<ParamGroup> groups, NAdamOptions options)
    : Optimizer("NAdam", std::move(groups), settings_of(options), options.max_grad_norm), options_(options) {
  if (!(options.momentum_decay >= 0))
    throw Error(fmt::format("NAdam: a momentum_decay of {} is negative", options.momentum_decay));
}

std::vector<std::string> NAdam::state_names(const ParamGroup&) const { return {"exp_avg", "exp_avg_sq"}; }

void NAdam::update(const ParamGroup& group, const std::vector<Tensor>& list, const StepNumbers& numbers,
                   const Tensor& control) {
  nadam_step_(list, numbers,
              {.beta1 = group.beta1,
               .beta2 = group.beta2,
               .eps = group.eps,
               .momentum_decay = options_.momentum_decay,
               .decoupled = options_.decoupled_weight_decay,
               .maximize = options_.maximize},
              control);
}

}  // namespace etna::optim
