#pragma once

#include <cstdint>

#include <etna/nn/module.h>

/// Activations as modules, for Sequential. The functions, with formulas and sources, are in <etna/tensor/ops.h> and
/// <etna/tensor/ops/activations/activations.h>; names and defaults are those of torch.nn.
namespace etna::nn {

#define ETNA_MODULE(NAME, FUNCTION)                   \
  class NAME : public UnaryModule {                   \
   public:                                            \
    Tensor forward(const Tensor& x) const override;   \
                                                      \
   protected:                                         \
    std::unique_ptr<Module> another() const override; \
  };
#define ETNA_NO_MODULE
#define ETNA_ACTIVATION(number, name, module, ...) module
#include <etna/tables/activations.def>
#undef ETNA_ACTIVATION
#undef ETNA_NO_MODULE
ETNA_MODULE(ReLU6, relu6)              // max(x, 0), at most 6
ETNA_MODULE(Mish, mish)                // x · tanh(softplus(x))
ETNA_MODULE(SELU, selu)                // elu, scaled so that layers keep mean 0 and variance 1
ETNA_MODULE(Sigmoid, sigmoid)          // 1 / (1 + e^-x)
ETNA_MODULE(LogSigmoid, logsigmoid)    // log(sigmoid(x))
ETNA_MODULE(Tanh, tanh)                // (e^x - e^-x) / (e^x + e^-x)
ETNA_MODULE(Tanhshrink, tanhshrink)    // x - tanh(x)
ETNA_MODULE(Softsign, softsign)        // x / (1 + |x|)
ETNA_MODULE(Hardsigmoid, hardsigmoid)  // (x + 3) / 6 within [0, 1]
#undef ETNA_MODULE

/// x · Φ(x), where Φ is the normal distribution function (Hendrycks & Gimpel 2016). With `tanh`, the approximation
/// x/2 · (1 + tanh(√(2/π) · (x + 0.044715 x³))).
class GELU : public UnaryModule {
 public:
  explicit GELU(bool tanh = false);
  Tensor forward(const Tensor& x) const override;
  std::string extra_repr() const override;

  bool tanh;

 protected:
  std::unique_ptr<Module> another() const override;
};

/// Activations with one number.
#define ETNA_MODULE(NAME, NUMBER, DEFAULT)                     \
  class NAME : public UnaryModule {                            \
   public:                                                     \
    explicit NAME(double NUMBER = DEFAULT) : NUMBER(NUMBER) {} \
    Tensor forward(const Tensor& x) const override;            \
                                                               \
    std::string extra_repr() const override;                   \
                                                               \
    double NUMBER;                                             \
                                                               \
   protected:                                                  \
    std::unique_ptr<Module> another() const override;          \
  };
ETNA_MODULE(LeakyReLU, negative_slope, 0.01)  // x, or x · slope where negative
ETNA_MODULE(ELU, alpha, 1)                    // x, or alpha · (e^x - 1) where negative
ETNA_MODULE(CELU, alpha, 1)                   // x, or alpha · (e^(x/alpha) - 1) where negative
ETNA_MODULE(Softshrink, lambda, 0.5)          // x moved toward 0 by lambda
ETNA_MODULE(Hardshrink, lambda, 0.5)          // 0 within lambda of 0
#undef ETNA_MODULE

/// Activations with two numbers.
#define ETNA_MODULE(NAME, FIRST, FIRST_DEFAULT, SECOND, SECOND_DEFAULT)                                       \
  class NAME : public UnaryModule {                                                                           \
   public:                                                                                                    \
    explicit NAME(double FIRST FIRST_DEFAULT, double SECOND SECOND_DEFAULT) : FIRST(FIRST), SECOND(SECOND) {} \
    Tensor forward(const Tensor& x) const override;                                                           \
                                                                                                              \
    std::string extra_repr() const override;                                                                  \
                                                                                                              \
    double FIRST, SECOND;                                                                                     \
                                                                                                              \
   protected:                                                                                                 \
    std::unique_ptr<Module> another() const override;                                                         \
  };
ETNA_MODULE(Hardtanh, min_val, = -1, max_val, = 1)      // x within [min_val, max_val]
ETNA_MODULE(Softplus, beta, = 1, threshold, = 20)       // log(1 + e^(beta · x)) / beta
ETNA_MODULE(Threshold, threshold, , value, )            // x where x > threshold, else value
ETNA_MODULE(RReLU, lower, = 1.0 / 8, upper, = 1.0 / 3)  // leaky_relu, while training with random slopes
#undef ETNA_MODULE

/// leaky_relu with a learned slope, shared or per channel (He et al. 2015).
class PReLU : public UnaryModule {
 public:
  explicit PReLU(std::int64_t num_parameters = 1, double init = 0.25);
  Tensor forward(const Tensor& x) const override;

  std::string extra_repr() const override;

  Tensor weight;  ///< [num_parameters]

 protected:
  std::unique_ptr<Module> another() const override;
};

/// softmax over the channels. @param x [N, C, H, W] or [C, H, W]
class Softmax2d : public UnaryModule {
 public:
  Tensor forward(const Tensor& x) const override;

 protected:
  std::unique_ptr<Module> another() const override;
};

/// Activations along a dimension.
#define ETNA_MODULE(NAME, DEFAULT)                        \
  class NAME : public UnaryModule {                       \
   public:                                                \
    explicit NAME(std::int64_t dim DEFAULT) : dim(dim) {} \
    Tensor forward(const Tensor& x) const override;       \
                                                          \
    std::string extra_repr() const override;              \
                                                          \
    std::int64_t dim;                                     \
                                                          \
   protected:                                             \
    std::unique_ptr<Module> another() const override;     \
  };
ETNA_MODULE(GLU, = -1)     // first half · sigmoid(second half)
ETNA_MODULE(Softmax, )     // e^x over its sum
ETNA_MODULE(Softmin, )     // softmax(-x)
ETNA_MODULE(LogSoftmax, )  // log(softmax(x))
#undef ETNA_MODULE

}  // namespace etna::nn
