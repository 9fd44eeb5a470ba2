#include <etna/models/projection.h>

#include <cmath>

#include <etna/nn/init.h>
#include <etna/tensor/ops.h>

namespace etna::models {

FreshWeights::FreshWeights(const DecoderConfig& config)
    : residual_divisor_(config.scaled_start ? std::sqrt(2 * static_cast<double>(config.layers)) : 1) {}

Matrix FreshWeights::matrix(const std::string& name, std::int64_t rows, std::int64_t columns) {
  const bool residual = name.ends_with(".attention.output.weight") || name.ends_with(".ffn.down.weight");
  return {nn::init::normal_(empty({rows, columns}), 0, 0.02 / (residual ? residual_divisor_ : 1)), {}};
}

Tensor FreshWeights::vector(const std::string& name, std::int64_t size) {
  return name.ends_with(".bias") ? zeros({size}) : ones({size});
}

}  // namespace etna::models
