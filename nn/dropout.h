#pragma once

#include <etna/nn/module.h>

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

}  // namespace etna::nn
