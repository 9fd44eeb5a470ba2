#pragma once

#include <optional>

#include <etna/nn/module.h>
#include <etna/tensor/ops/pooling/pooling.h>

/// The pooling functions of <etna/tensor/ops/pooling/pooling.h> as modules, with the same arguments.
namespace etna::nn {

#define ETNA_POOLING_MODULES(N)                                                                           \
  class MaxPool##N : public UnaryModule {                                                                 \
   public:                                                                                                \
    explicit MaxPool##N(Dims kernel_size, Dims stride = {}, Dims padding = 0, Dims dilation = 1,          \
                        bool ceil_mode = false)                                                           \
        : kernel_size(kernel_size), options{stride, padding, dilation, ceil_mode} {}                      \
    Tensor forward(const Tensor& x) const override;                                                       \
    MaxPooled forward_with_indices(const Tensor& x) const;                                                \
    std::string extra_repr() const override;                                                              \
                                                                                                          \
    Dims kernel_size;                                                                                     \
    MaxPoolOptions options;                                                                               \
                                                                                                          \
   protected:                                                                                             \
    std::unique_ptr<Module> another() const override;                                                     \
  };                                                                                                      \
  class MaxUnpool##N : public Module {                                                                    \
   public:                                                                                                \
    explicit MaxUnpool##N(Dims kernel_size, Dims stride = {}, Dims padding = 0)                           \
        : kernel_size(kernel_size), stride(stride), padding(padding) {}                                   \
    Tensor forward(const Tensor& x, const Tensor& indices, Dims output_size = {}) const;                  \
    Tensor operator()(const Tensor& x, const Tensor& indices, Dims output_size = {}) const;               \
    std::string extra_repr() const override;                                                              \
                                                                                                          \
    Dims kernel_size, stride, padding;                                                                    \
                                                                                                          \
   protected:                                                                                             \
    std::unique_ptr<Module> another() const override;                                                     \
  };                                                                                                      \
  class AvgPool##N : public UnaryModule {                                                                 \
   public:                                                                                                \
    explicit AvgPool##N(Dims kernel_size, Dims stride = {}, Dims padding = 0, bool ceil_mode = false,     \
                        bool count_include_pad = true, std::optional<std::int64_t> divisor_override = {}) \
        : kernel_size(kernel_size),                                                                       \
          stride(stride),                                                                                 \
          padding(padding),                                                                               \
          ceil_mode(ceil_mode),                                                                           \
          count_include_pad(count_include_pad),                                                           \
          divisor_override(divisor_override) {}                                                           \
    Tensor forward(const Tensor& x) const override;                                                       \
    std::string extra_repr() const override;                                                              \
                                                                                                          \
    Dims kernel_size, stride, padding;                                                                    \
    bool ceil_mode, count_include_pad;                                                                    \
    std::optional<std::int64_t> divisor_override; /* not in one dimension */                              \
                                                                                                          \
   protected:                                                                                             \
    std::unique_ptr<Module> another() const override;                                                     \
  };                                                                                                      \
  class AdaptiveAvgPool##N : public UnaryModule {                                                         \
   public:                                                                                                \
    explicit AdaptiveAvgPool##N(Dims output_size) : output_size(output_size) {}                           \
    Tensor forward(const Tensor& x) const override;                                                       \
    std::string extra_repr() const override;                                                              \
                                                                                                          \
    Dims output_size;                                                                                     \
                                                                                                          \
   protected:                                                                                             \
    std::unique_ptr<Module> another() const override;                                                     \
  };                                                                                                      \
  class AdaptiveMaxPool##N : public UnaryModule {                                                         \
   public:                                                                                                \
    explicit AdaptiveMaxPool##N(Dims output_size) : output_size(output_size) {}                           \
    Tensor forward(const Tensor& x) const override;                                                       \
    MaxPooled forward_with_indices(const Tensor& x) const;                                                \
    std::string extra_repr() const override;                                                              \
                                                                                                          \
    Dims output_size;                                                                                     \
                                                                                                          \
   protected:                                                                                             \
    std::unique_ptr<Module> another() const override;                                                     \
  };                                                                                                      \
  class LPPool##N : public UnaryModule {                                                                  \
   public:                                                                                                \
    LPPool##N(double norm_type, Dims kernel_size, Dims stride = {}, bool ceil_mode = false)               \
        : norm_type(norm_type), kernel_size(kernel_size), stride(stride), ceil_mode(ceil_mode) {}         \
    Tensor forward(const Tensor& x) const override;                                                       \
    std::string extra_repr() const override;                                                              \
                                                                                                          \
    double norm_type;                                                                                     \
    Dims kernel_size, stride;                                                                             \
    bool ceil_mode;                                                                                       \
                                                                                                          \
   protected:                                                                                             \
    std::unique_ptr<Module> another() const override;                                                     \
  };
ETNA_POOLING_MODULES(1d)
ETNA_POOLING_MODULES(2d)
ETNA_POOLING_MODULES(3d)
#undef ETNA_POOLING_MODULES

}  // namespace etna::nn
