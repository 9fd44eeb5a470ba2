#pragma once

#include <etna/nn/dropout.h>
#include <etna/tensor/stochastic.h>

/// Dropout of whole channels, and dropout for selu: the functions of <etna/tensor/stochastic.h> as modules.
namespace etna::nn {

#define ETNA_DROPOUT(NAME, FUNCTION)                                                       \
  class NAME : public UnaryModule {                                                        \
   public:                                                                                 \
    /** @throws Error if p is not in [0, 1] */                                             \
    explicit NAME(double p = 0.5) : p(checked_probability(#NAME, p)) {}                    \
    Tensor forward(const Tensor& x) const override { return FUNCTION(x, p, training()); }  \
    std::string extra_repr() const override { return dropout_repr(p); }                    \
                                                                                           \
    double p;                                                                              \
                                                                                           \
   protected:                                                                              \
    std::unique_ptr<Module> another() const override { return std::make_unique<NAME>(p); } \
  };
ETNA_DROPOUT(Dropout1d, dropout1d)  // [N, C, L], or [C, L]
ETNA_DROPOUT(Dropout2d, dropout2d)  // [N, C, H, W], or, as PyTorch reads three dimensions, [N, C, L]
ETNA_DROPOUT(Dropout3d, dropout3d)  // [N, C, D, H, W], or [C, D, H, W]
ETNA_DROPOUT(AlphaDropout, alpha_dropout)
ETNA_DROPOUT(FeatureAlphaDropout, feature_alpha_dropout)  // [N, C, ...]
#undef ETNA_DROPOUT

}  // namespace etna::nn
