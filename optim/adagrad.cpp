#include <etna/optim/adagrad.h>

#include <fmt/format.h>

#include <etna/tensor/ops/optimizer/internal/optimizer.h>

namespace etna::optim {

Adagrad::Adagrad(std::vector<Tensor> parameters, AdagradOptions options)
    : Adagrad(std::vector<ParamGroup>{{.parameters = std::move(parameters)}}, options) {}

Adagrad::Adagrad(std::vector<ParamGroup> groups, AdagradOptions options)
    : Optimizer("Adagrad", std::move(groups), settings_of(options), options.max_grad_norm), options_(options) {
  if (!(options.lr_decay >= 0)) throw Error(fmt::format("Adagrad: an lr_decay of {} is negative", options.lr_decay));
  if (!(options.initial_accumulator_value >= 0)) {
    throw Error(
        fmt::format("Adagrad: an initial_accumulator_value of {} is negative", options.initial_accumulator_value));
  }
}

std::vector<std::string> Adagrad::state_names(const ParamGroup&) const { return {"sum"}; }

void Adagrad::update(const ParamGroup& group, const std::vector<Tensor>& list, const StepNumbers& numbers,
                     const Tensor& control) {
  adagrad_step_(list, numbers, {.lr_decay = options_.lr_decay, .eps = group.eps, .maximize = options_.maximize},
                control);
}

}  // namespace etna::optim
