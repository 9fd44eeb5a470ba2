#include <etna/optim/adam.h>

#include <etna/tensor/ops/optimizer/internal/optimizer.h>

namespace etna::optim {

Adamax::Adamax(std::vector<Tensor> parameters, AdamaxOptions options)
    : Adamax(std::vector<ParamGroup>{{.parameters = std::move(parameters)}}, options) {}

Adamax::Adamax(std::vector<ParamGroup> groups, AdamaxOptions options)
    : Optimizer("Adamax", std::move(groups), settings_of(options), options.max_grad_norm), options_(options) {}

std::vector<std::string> Adamax::state_names(const ParamGroup&) const { return {"exp_avg", "exp_inf"}; }

void Adamax::update(const ParamGroup& group, const std::vector<Tensor>& list, const StepNumbers& numbers,
                    const Tensor& control) {
  adamax_step_(list, numbers,
               {.beta1 = group.beta1, .beta2 = group.beta2, .eps = group.eps, .maximize = options_.maximize}, control);
}

}  // namespace etna::optim
