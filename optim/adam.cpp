#include <etna/optim/adam.h>

#include <etna/tensor/ops/optimizer/internal/optimizer.h>

namespace etna::optim {

Adam::Adam(std::vector<Tensor> parameters, AdamOptions options)
    : Adam(std::vector<ParamGroup>{{.parameters = std::move(parameters)}}, options) {}

Adam::Adam(std::vector<ParamGroup> groups, AdamOptions options) : Adam(std::move(groups), options, false) {}

Adam::Adam(std::vector<ParamGroup> groups, AdamOptions options, bool decoupled)
    : Optimizer(decoupled ? "AdamW" : "Adam", std::move(groups), settings_of(options), options.max_grad_norm),
      options_(options),
      decoupled_(decoupled) {}

std::vector<std::string> Adam::state_names(const ParamGroup&) const {
  if (options_.amsgrad) return {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"};
  return {"exp_avg", "exp_avg_sq"};
}

void Adam::update(const ParamGroup& group, const std::vector<Tensor>& list, const StepNumbers& numbers,
                  const Tensor& control) {
  const AdamStep step{.beta1 = group.beta1,
                      .beta2 = group.beta2,
                      .eps = group.eps,
                      .decoupled = decoupled_,
                      .maximize = options_.maximize};
  if (options_.amsgrad)
    amsgrad_step_(list, numbers, step, control);
  else
    adam_step_(list, numbers, step, control);
}

AdamW::AdamW(std::vector<Tensor> parameters, AdamWOptions options)
    : AdamW(std::vector<ParamGroup>{{.parameters = std::move(parameters)}}, options) {}

AdamW::AdamW(std::vector<ParamGroup> groups, AdamWOptions options)
    : Adam(std::move(groups),
           {options.lr, options.betas, options.eps, options.weight_decay, options.amsgrad, options.maximize,
            options.max_grad_norm},
           true) {}

}  // namespace etna::optim
