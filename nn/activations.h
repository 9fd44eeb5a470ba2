#pragma once

#include <cstdint>

#include <etna/nn/module.h>

/// Activations as modules, for Sequential. The functions, with formulas and sources, are in <etna/tensor/ops.h> and
/// <etna/tensor/ops/activations/activations.h>; names and defaults are those of torch.nn.
namespace etna::nn {

#define ETNA_ACTIVATION(NAME)                         \
  class NAME : public UnaryModule {                   \
   public:                                            \
    Tensor forward(const Tensor& x) const override;   \
                                                      \
   protected:                                         \
    std::unique_ptr<Module> another() const override; \
  };
ETNA_ACTIVATION(ReLU)         // max(x, 0)
ETNA_ACTIVATION(ReLU6)        // max(x, 0), at most 6
ETNA_ACTIVATION(SiLU)         // x · sigmoid(x)
ETNA_ACTIVATION(Mish)         // x · tanh(softplus(x))
ETNA_ACTIVATION(SELU)         // elu, scaled so that layers keep mean 0 and variance 1
ETNA_ACTIVATION(Sigmoid)      // 1 / (1 + e^-x)
ETNA_ACTIVATION(LogSigmoid)   // log(sigmoid(x))
ETNA_ACTIVATION(Tanh)         // (e^x - e^-x) / (e^x + e^-x)
ETNA_ACTIVATION(Tanhshrink)   // x - tanh(x)
ETNA_ACTIVATION(Softsign)     // x / (1 + |x|)
ETNA_ACTIVATION(Hardsigmoid)  // (x + 3) / 6 within [0, 1]
ETNA_ACTIVATION(Hardswish)    // x · hardsigmoid(x)
#undef ETNA_ACTIVATION

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
#define ETNA_ACTIVATION(NAME, NUMBER, DEFAULT)                 \
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
ETNA_ACTIVATION(LeakyReLU, negative_slope, 0.01)  // x, or x · slope where negative
ETNA_ACTIVATION(ELU, alpha, 1)                    // x, or alpha · (e^x - 1) where negative
ETNA_ACTIVATION(CELU, alpha, 1)                   // x, or alpha · (e^(x/alpha) - 1) where negative
ETNA_ACTIVATION(Softshrink, lambda, 0.5)          // x moved toward 0 by lambda
ETNA_ACTIVATION(Hardshrink, lambda, 0.5)          // 0 within lambda of 0
#undef ETNA_ACTIVATION

/// Activations with two numbers.
#define ETNA_ACTIVATION(NAME, FIRST, FIRST_DEFAULT, SECOND, SECOND_DEFAULT)                                   \
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
ETNA_ACTIVATION(Hardtanh, min_val, = -1, max_val, = 1)      // x within [min_val, max_val]
ETNA_ACTIVATION(Softplus, beta, = 1, threshold, = 20)       // log(1 + e^(beta · x)) / beta
ETNA_ACTIVATION(Threshold, threshold, , value, )            // x where x > threshold, else value
ETNA_ACTIVATION(RReLU, lower, = 1.0 / 8, upper, = 1.0 / 3)  // leaky_relu, while training with random slopes
#undef ETNA_ACTIVATION

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
#define ETNA_ACTIVATION(NAME, DEFAULT)                    \
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
ETNA_ACTIVATION(GLU, = -1)     // first half · sigmoid(second half)
ETNA_ACTIVATION(Softmax, )     // e^x over its sum
ETNA_ACTIVATION(Softmin, )     // softmax(-x)
ETNA_ACTIVATION(LogSoftmax, )  // log(softmax(x))
#undef ETNA_ACTIVATION

}  // namespace etna::nn
