#include <etna/optim/adam.h>

#include <etna/tensor/ops/optimizer/internal/optimizer.h>

namespace etna::optim {

RAdam::RAdam(std::vector<Tensor> parameters, RAdamOptions options)
    : RAdam(std::vector<ParamGroup>{{.parameters = std::move(parameters)}}, options) {}

RAdam::RAdam(std::vector<ParamGroup> groups, RAdamOptions options)
    : Optimizer("RAdam", std::move(groups), settings_of(options), options.max_grad_norm), options_(options) {}

std::vector<std::string> RAdam::state_names(const ParamGroup&) const { return {"exp_avg", "exp_avg_sq"}; }

void RAdam::update(const ParamGroup& group, const std::vector<Tensor>& list, const StepNumbers& numbers,
                   const Tensor& control) {
  radam_step_(list, numbers,
              {.beta1 = group.beta1,
               .beta2 = group.beta2,
               .eps = group.eps,
               .decoupled = options_.decoupled_weight_decay,
               .maximize = options_.maximize},
              control);
}

}  // namespace etna::optim
