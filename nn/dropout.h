#pragma once

#include <etna/nn/module.h>

/// Dropout of elements and of whole channels, and dropout for selu: the functions of
/// <etna/tensor/ops/random/random.h> as modules.
namespace etna::nn {

/// Checks a probability that a module's constructor got. @return it @throws Error naming the module
double checked_probability(const char* module, double p);
/// "p=0.5, inplace=False"
std::string dropout_repr(double p);

/// While training, zeroes each element with probability p and scales the rest by 1/(1-p) (Srivastava et al. 2014).
/// Otherwise returns x.
class Dropout : public UnaryModule {
 public:
  /// @throws Error if p is not in [0, 1]
  explicit Dropout(double p = 0.5);
  Tensor forward(const Tensor& x) const override;
  /// False: forward() returns x.
  bool active() const { return training() && p > 0; }

  std::string extra_repr() const override;

  double p;

 protected:
  std::unique_ptr<Module> another() const override;
};

#define ETNA_DROPOUT(NAME)                            \
  class NAME : public UnaryModule {                   \
   public:                                            \
    /** @throws Error if p is not in [0, 1] */        \
    explicit NAME(double p = 0.5);                    \
    Tensor forward(const Tensor& x) const override;   \
    std::string extra_repr() const override;          \
                                                      \
    double p;                                         \
                                                      \
   protected:                                         \
    std::unique_ptr<Module> another() const override; \
  };
ETNA_DROPOUT(Dropout1d)  // [N, C, L], or [C, L]
ETNA_DROPOUT(Dropout2d)  // [N, C, H, W], or, as PyTorch reads three dimensions, [N, C, L]
ETNA_DROPOUT(Dropout3d)  // [N, C, D, H, W], or [C, D, H, W]
ETNA_DROPOUT(AlphaDropout)
ETNA_DROPOUT(FeatureAlphaDropout)  // [N, C, ...]
#undef ETNA_DROPOUT

}  // namespace etna::nn
