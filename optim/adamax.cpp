#include <etna/optim/adamax.h>

#include <fmt/format.h>

#include <etna/tensor/multi_tensor.h>

namespace etna::optim {

Adamax::Adamax(std::vector<Tensor> parameters, AdamaxOptions options)
    : Adamax(std::vector<ParamGroup>{{.parameters = std::move(parameters)}}, options) {}

Adamax::Adamax(std::vector<ParamGroup> groups, AdamaxOptions options)
    : Optimizer(std::move(groups), options.lr, options.weight_decay, options.max_grad_norm), options_(options) {
  for (double beta : {options.beta1, options.beta2}) {
    if (!(beta >= 0 && beta < 1)) throw Error(fmt::format("Adamax: a beta of {} is not in [0, 1)", beta));
  }
  if (!(options.eps >= 0)) throw Error(fmt::format("Adamax: an eps of {} is negative", options.eps));
}

std::vector<std::string> Adamax::state_names() const { return {"exp_avg", "exp_inf"}; }

void Adamax::update(const std::vector<Tensor>& list, const StepNumbers& numbers, const Tensor& control) {
  adamax_step_(list, numbers,
               {.beta1 = options_.beta1, .beta2 = options_.beta2, .eps = options_.eps, .maximize = options_.maximize},
               control);
}

}  // namespace etna::optim
