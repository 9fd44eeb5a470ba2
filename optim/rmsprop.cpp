#include <etna/optim/adagrad.h>

#include <fmt/format.h>

#include <etna/tensor/ops/optimizer/internal/optimizer.h>

namespace etna::optim {

RMSprop::RMSprop(std::vector<Tensor> parameters, RMSpropOptions options)
    : RMSprop(std::vector<ParamGroup>{{.parameters = std::move(parameters)}}, options) {}

RMSprop::RMSprop(std::vector<ParamGroup> groups, RMSpropOptions options)
    : Optimizer("RMSprop", std::move(groups), settings_of(options), options.max_grad_norm), options_(options) {
  if (!(options.alpha >= 0)) throw Error(fmt::format("RMSprop: an alpha of {} is negative", options.alpha));
}

std::vector<std::string> RMSprop::state_names(const ParamGroup& group) const {
  std::vector<std::string> names = {"square_avg"};
  if (options_.centered) names.push_back("grad_avg");
  if (group.momentum > 0) names.push_back("momentum_buffer");
  return names;
}

void RMSprop::update(const ParamGroup& group, const std::vector<Tensor>& list, const StepNumbers& numbers,
                     const Tensor& control) {
  const RMSpropStep step{
      .alpha = options_.alpha, .eps = group.eps, .momentum = group.momentum, .maximize = options_.maximize};
  const bool momentum = group.momentum > 0;
  if (options_.centered && momentum)
    rmsprop_centered_momentum_step_(list, numbers, step, control);
  else if (options_.centered)
    rmsprop_centered_step_(list, numbers, step, control);
  else if (momentum)
    rmsprop_momentum_step_(list, numbers, step, control);
  else
    rmsprop_step_(list, numbers, step, control);
}

}  // namespace etna::optim
