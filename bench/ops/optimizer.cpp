#include <memory>

#include <etna/models/decoder.h>
#include <etna/optim/adam.h>
#include <etna/optim/optimizer.h>

#include "case.h"

/// One step over all parameters of the model. AdamW reads parameter, gradient and two moments and writes all but the
/// gradient; clipping reads the gradients twice and writes them once.
namespace bench {

using namespace etna;

namespace {

std::vector<Tensor> parameters_with_gradients(const models::DecoderConfig& config, Device device) {
  models::Decoder model(config);
  model.to(device);
  std::vector<Tensor> parameters = model.parameters();
  for (Tensor& p : parameters) p.set_grad(full(p.shape(), 1e-3, {f32, device}));
  return parameters;
}

}  // namespace

Cases optimizer_cases(const Workload& w) {
  const models::DecoderConfig model = models::decoder_config("gpt2", w.model);
  const auto n = static_cast<double>(model.num_parameters());
  Cases cases;
  cases.push_back({"adamw_step", 28 * n, 0, [=](Device d) {
                     auto optimizer = std::make_shared<optim::AdamW>(parameters_with_gradients(model, d));
                     return [optimizer] { optimizer->step(); };
                   }});
  cases.push_back({"adamw_step_clipped", 32 * n, 0, [=](Device d) {
                     auto optimizer = std::make_shared<optim::AdamW>(parameters_with_gradients(model, d),
                                                                     optim::AdamWOptions{.max_grad_norm = 1});
                     return [optimizer] { optimizer->step(); };
                   }});
  cases.push_back({"clip_grad_norm_", 12 * n, 0, [=](Device d) {
                     // Decreases each time, so that there is always something to scale.
                     return [parameters = parameters_with_gradients(model, d), norm = 1.0]() mutable {
                       optim::clip_grad_norm_(parameters, norm *= 0.99999);
                     };
                   }});
  return cases;
}

}  // namespace bench
