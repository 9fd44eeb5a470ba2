#include <etna/optim/sgd.h>

#include <fmt/format.h>

#include <etna/tensor/ops/optimizer/internal/optimizer.h>

namespace etna::optim {

ASGD::ASGD(std::vector<Tensor> parameters, ASGDOptions options)
    : ASGD(std::vector<ParamGroup>{{.parameters = std::move(parameters)}}, options) {}

ASGD::ASGD(std::vector<ParamGroup> groups, ASGDOptions options)
    : Optimizer("ASGD", std::move(groups), settings_of(options), options.max_grad_norm), options_(options) {
  if (!(options.lambd >= 0) || !(options.t0 >= 0)) {
    throw Error(fmt::format("ASGD: a lambd of {} and a t0 of {}; neither may be negative", options.lambd, options.t0));
  }
}

std::vector<std::string> ASGD::state_names(const ParamGroup&) const { return {"ax"}; }

void ASGD::update(const ParamGroup&, const std::vector<Tensor>& list, const StepNumbers& numbers,
                  const Tensor& control) {
  asgd_step_(list, numbers,
             {.lambd = options_.lambd, .alpha = options_.alpha, .t0 = options_.t0, .maximize = options_.maximize},
             control);
}

}  // namespace etna::optim
