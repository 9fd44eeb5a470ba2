#include <etna/models/weights.h>

#include <cmath>

#include <etna/nn/init.h>
#include <etna/tensor/ops.h>

namespace etna::models {

Matrix FreshWeights::matrix(const std::string& name, std::int64_t rows, std::int64_t columns) {
  const bool to_residual = name.ends_with(".attention.output.weight") || name.ends_with(".ffn.down.weight");
  const double shrink = to_residual ? std::sqrt(2 * static_cast<double>(layers_)) : 1;
  return {nn::init::normal_(empty({rows, columns}), 0, 0.02 / shrink), {}};
}

Tensor FreshWeights::vector(const std::string& name, std::int64_t size) {
  return name.ends_with(".bias") ? zeros({size}) : ones({size});
}

}  // namespace etna::models
