#include <etna/models/weights.h>

#include <etna/nn/init.h>
#include <etna/tensor/ops.h>

namespace etna::models {

Matrix FreshWeights::matrix(const std::string& /*name*/, std::int64_t rows, std::int64_t columns) {
  return {nn::init::normal_(empty({rows, columns}), 0, 0.02), {}};
}

Tensor FreshWeights::vector(const std::string& name, std::int64_t size) {
  return name.ends_with(".bias") ? zeros({size}) : ones({size});
}

}  // namespace etna::models
