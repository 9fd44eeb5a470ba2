#include <etna/nn/dropout.h>

#include <fmt/format.h>

#include <etna/nn/module.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/random/random.h>

namespace etna::nn {

double checked_probability(const char* module, double p) {
  if (!(p >= 0 && p <= 1)) throw Error(fmt::format("{}: the probability {} is not in [0, 1]", module, p));
  return p;
}

std::string dropout_repr(double p) { return fmt::format("{}, inplace=False", repr_of("p", p)); }

Dropout::Dropout(double p) : p(checked_probability("Dropout", p)) {}

Tensor Dropout::forward(const Tensor& x) const { return active() ? dropout(x, p) : x; }

std::string Dropout::extra_repr() const { return dropout_repr(p); }

std::unique_ptr<Module> Dropout::another() const { return std::make_unique<Dropout>(p); }

#define ETNA_DROPOUT(NAME, FUNCTION)                                                 \
  NAME::NAME(double p) : p(checked_probability(#NAME, p)) {}                         \
  Tensor NAME::forward(const Tensor& x) const { return FUNCTION(x, p, training()); } \
  std::string NAME::extra_repr() const { return dropout_repr(p); }                   \
  std::unique_ptr<Module> NAME::another() const { return std::make_unique<NAME>(p); }
ETNA_DROPOUT(Dropout1d, dropout1d)
ETNA_DROPOUT(Dropout2d, dropout2d)
ETNA_DROPOUT(Dropout3d, dropout3d)
ETNA_DROPOUT(AlphaDropout, alpha_dropout)
ETNA_DROPOUT(FeatureAlphaDropout, feature_alpha_dropout)
#undef ETNA_DROPOUT

}  // namespace etna::nn
