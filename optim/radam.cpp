#include <etna/optim/radam.h>

#include <fmt/format.h>

#include <etna/tensor/multi_tensor.h>

namespace etna::optim {

RAdam::RAdam(std::vector<Tensor> parameters, RAdamOptions options)
    : RAdam(std::vector<ParamGroup>{{.parameters = std::move(parameters)}}, options) {}

RAdam::RAdam(std::vector<ParamGroup> groups, RAdamOptions options)
    : Optimizer(std::move(groups),
                {.lr = options.lr,
                 .weight_decay = options.weight_decay,
                 .beta1 = options.beta1,
                 .beta2 = options.beta2,
                 .eps = options.eps},
                options.max_grad_norm),
      options_(options) {
  for (double beta : {options.beta1, options.beta2}) {
    if (!(beta >= 0 && beta < 1)) throw Error(fmt::format("RAdam: a beta of {} is not in [0, 1)", beta));
  }
  if (!(options.eps >= 0)) throw Error(fmt::format("RAdam: an eps of {} is negative", options.eps));
}

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
