#include <etna/nn/dropout.h>

#include <fmt/format.h>

#include <etna/tensor/ops.h>

namespace etna::nn {

Dropout::Dropout(double p) : p(p) {
  if (!(p >= 0 && p < 1)) throw Error(fmt::format("Dropout: the probability {} is not in [0, 1)", p));
}

Tensor Dropout::forward(const Tensor& x) const { return active() ? dropout(x, p) : x; }

std::string Dropout::extra_repr() const { return fmt::format("p={}, inplace=False", p); }

}  // namespace etna::nn
