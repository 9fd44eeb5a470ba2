#include <etna/optim/adam.h>

#include <cmath>

#include <fmt/format.h>

#include <etna/tensor/ops/optimizer/internal/optimizer.h>

namespace etna::optim {

AdEMAMix::AdEMAMix(std::vector<Tensor> parameters, AdEMAMixOptions options)
    : AdEMAMix(std::vector<ParamGroup>{{.parameters = std::move(parameters)}}, options) {}

AdEMAMix::AdEMAMix(std::vector<ParamGroup> groups, AdEMAMixOptions options)
    : Optimizer("AdEMAMix", std::move(groups), settings_of(options), options.max_grad_norm), options_(options) {
  if (!(options.beta3 >= 0 && options.beta3 < 1))
    throw Error(fmt::format("AdEMAMix: beta3 is {}, not in [0, 1)", options.beta3));
  if (!(options.alpha >= 0 && std::isfinite(options.alpha)))
    throw Error(fmt::format("AdEMAMix: alpha is {}; it must be finite and not negative", options.alpha));
  if (options.warmup < 0) throw Error(fmt::format("AdEMAMix: a warmup of {} steps is negative", options.warmup));
}

std::vector<std::string> AdEMAMix::state_names(const ParamGroup&) const {
  return {"exp_avg", "exp_avg_slow", "exp_avg_sq"};
}

void AdEMAMix::update(const ParamGroup& group, const std::vector<Tensor>& list, const StepNumbers& numbers,
                      const Tensor& control) {
  ademamix_step_(list, numbers,
                 {.beta1 = group.beta1,
                  .beta2 = group.beta2,
                  .beta3 = options_.beta3,
                  .alpha = options_.alpha,
                  .eps = group.eps,
                  .warmup = options_.warmup,
                  .maximize = options_.maximize},
                 control);
}

}  // namespace etna::optim
