#include <etna/nn/sequential.h>

namespace etna::nn {

Tensor Sequential::forward(const Tensor& x) const {
  Tensor y = x;
  for (const UnaryModule& module : modules) y = module(y);
  return y;
}

}  // namespace etna::nn
