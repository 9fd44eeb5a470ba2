#include <etna/models/projection.h>

#include <cmath>
#include <utility>

#include <etna/nn/init.h>
#include <etna/tensor/ops.h>

namespace etna::models {

FreshWeights::FreshWeights(const DecoderConfig& config)
    : residual_divisor_(config.scaled_start ? std::sqrt(2 * static_cast<double>(config.layers)) : 1) {}

Matrix FreshWeights::matrix(const std::string& name, std::int64_t rows, std::int64_t columns) {
  const bool residual = name.ends_with(".output.weight") || name.ends_with(".ffn.down.weight");
  return {nn::init::normal_(empty({rows, columns}), 0, 0.02 / (residual ? residual_divisor_ : 1)), {}};
}

Tensor FreshWeights::vector(const std::string& name, std::int64_t size) {
  // Of a state, taps of a convolution, and heads that forget within some tens of positions.
  if (name.ends_with(".kernel.weight")) return nn::init::normal_(empty({size}), 0, 0.3);
  if (name.ends_with(".log_decay")) return full({size}, std::log(4.0));
  if (name.ends_with(".step_bias")) return full({size}, std::log(std::expm1(0.01)));
  // Of xIELU as its authors start it: both factors 0.8, and softplus gives them.
  const auto softplus_of = [](double factor) { return std::log(std::expm1(factor)); };
  for (const auto& [end, start] :
       {std::pair{".bias", 0.0}, std::pair{".alpha_p", softplus_of(0.8)}, std::pair{".alpha_n", softplus_of(0.3)},
        std::pair{".beta", 0.5}, std::pair{".eps", -1e-6}, std::pair{".sinks", 0.0}, std::pair{".prediction", 0.0},
        std::pair{".correction", 0.0}, std::pair{".mixer.scale", 0.0}})
    if (name.ends_with(end)) return full({size}, start);
  return ones({size});
}

}  // namespace etna::models
