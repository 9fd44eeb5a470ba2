#include <etna/nn/dropout.h>

#include <fmt/format.h>

#include <etna/nn/printing.h>
#include <etna/tensor/ops.h>

namespace etna::nn {

double checked_probability(const char* module, double p) {
  if (!(p >= 0 && p <= 1)) throw Error(fmt::format("{}: the probability {} is not in [0, 1]", module, p));
  return p;
}

std::string dropout_repr(double p) { return fmt::format("{}, inplace=False", repr_of("p", p)); }

Dropout::Dropout(double p) : p(checked_probability("Dropout", p)) {}

Tensor Dropout::forward(const Tensor& x) const { return active() ? dropout(x, p) : x; }

}  // namespace etna::nn
