#pragma once

#include <string_view>

#include <etna/nn/module.h>
#include <etna/tensor/ops/convolution/convolution.h>

namespace etna::nn {

/// The arguments after the channels and the kernel's size, as PyTorch orders them.
///     nn::Conv2d conv(64, 128, 3, {.stride = 2, .padding = 1, .bias = false});
struct ConvOptions {
  Dims stride = 1;
  Padding padding = 0;
  Dims dilation = 1;
  std::int64_t groups = 1;
  bool bias = true;
  std::string_view padding_mode = "zeros";  ///< or "reflect", "replicate", "circular": the modes of pad()
};
struct ConvTransposeOptions {
  Dims stride = 1;
  Dims padding = 0;
  Dims output_padding = 0;
  std::int64_t groups = 1;
  bool bias = true;
  Dims dilation = 1;
  std::string_view padding_mode = "zeros";  ///< the only one
};

/// What Conv1d to ConvTranspose3d share: a weight and a bias, initialized uniform in ±1/√fan_in (He et al. 2015 with
/// a = √5, as in PyTorch).
class ConvBase : public UnaryModule {
 public:
  const std::int64_t in_channels, out_channels;
  const Dims kernel_size;  ///< one number for each spatial dimension
  Tensor weight, bias;     ///< bias is undefined if left out

 protected:
  /// @throws Error, ShapeError naming `name` for arguments that do not fit one another
  ConvBase(const char* name, std::int64_t in_channels, std::int64_t out_channels, const Dims& kernel_size, int spatial,
           const ConvOptions& options);
  ConvBase(const char* name, std::int64_t in_channels, std::int64_t out_channels, const Dims& kernel_size, int spatial,
           const ConvTransposeOptions& options);
  /// x with the padding around it, for all modes but "zeros".
  Tensor padded(const Tensor& x, const ConvOptions& options) const;
  std::string repr_with(const ConvOptions& options) const;
  std::string repr_with(const ConvTransposeOptions& options) const;

 private:
  void initialize(const Shape& shape, bool with_bias);
};

/// conv1d(x, weight, bias) and so on; weight [out, in / groups, kernel...]. The transposed ones: conv_transpose1d(x,
/// weight, bias) and so on; weight [in, out / groups, kernel...].
#define ETNA_CONV(NAME, OPTIONS)                                                                                     \
  class NAME : public ConvBase {                                                                                     \
   public:                                                                                                           \
    NAME(std::int64_t in_channels, std::int64_t out_channels, const Dims& kernel_size, const OPTIONS& options = {}); \
    Tensor forward(const Tensor& x) const override;                                                                  \
    std::string extra_repr() const override;                                                                         \
                                                                                                                     \
    const OPTIONS options;                                                                                           \
                                                                                                                     \
   protected:                                                                                                        \
    std::unique_ptr<Module> another() const override;                                                                \
  };
ETNA_CONV(Conv1d, ConvOptions)
ETNA_CONV(Conv2d, ConvOptions)
ETNA_CONV(Conv3d, ConvOptions)
ETNA_CONV(ConvTranspose1d, ConvTransposeOptions)
ETNA_CONV(ConvTranspose2d, ConvTransposeOptions)
ETNA_CONV(ConvTranspose3d, ConvTransposeOptions)
#undef ETNA_CONV

/// unfold(): [N, C, H, W] to [N, C · kernel elements, patches].
class Unfold : public UnaryModule {
 public:
  explicit Unfold(const Dims& kernel_size, const Dims& dilation = 1, const Dims& padding = 0, const Dims& stride = 1);
  Tensor forward(const Tensor& x) const override;
  std::string extra_repr() const override;

  const Dims kernel_size, dilation, padding, stride;

 protected:
  std::unique_ptr<Module> another() const override;
};

/// fold(): [N, C · kernel elements, patches] to [N, C, H, W].
class Fold : public UnaryModule {
 public:
  Fold(const Dims& output_size, const Dims& kernel_size, const Dims& dilation = 1, const Dims& padding = 0,
       const Dims& stride = 1);
  Tensor forward(const Tensor& x) const override;
  std::string extra_repr() const override;

  const Dims output_size, kernel_size, dilation, padding, stride;

 protected:
  std::unique_ptr<Module> another() const override;
};

}  // namespace etna::nn
