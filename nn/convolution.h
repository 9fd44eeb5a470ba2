#pragma once

#include <string_view>

#include <etna/nn/module.h>
#include <etna/tensor/convolution.h>

namespace etna::nn {

/// The arguments after the channels and the kernel's size, as PyTorch orders them.
///     nn::Conv2d conv(64, 128, 3, {.stride = 2, .padding = 1, .bias = false});
struct ConvOptions {
  Dims stride = 1;
  Padding padding = 0;
  Dims dilation = 1;
  std::int64_t groups = 1;
  bool bias = true;
  std::string_view padding_mode = "zeros";  ///< the only one; pad x by another rule before the layer
};
struct ConvTransposeOptions {
  Dims stride = 1;
  Dims padding = 0;
  Dims output_padding = 0;
  std::int64_t groups = 1;
  bool bias = true;
  Dims dilation = 1;
  std::string_view padding_mode = "zeros";
};

/// What Conv1d to ConvTranspose3d share: a weight and a bias, initialized uniform in ±1/√fan_in (He et al. 2015 with
/// a = √5, as in PyTorch).
class ConvBase : public UnaryModule {
 public:
  Tensor weight, bias;  ///< bias is undefined if left out

 protected:
  /// @param shape of the weight @throws Error, ShapeError naming `name` for arguments that do not fit one another
  ConvBase(const char* name, Shape shape, std::int64_t out_channels, bool with_bias, std::string_view padding_mode);
};

/// conv1d(x, weight, bias) and so on; weight [out, in / groups, kernel...].
#define ETNA_CONV(NAME)                                                                \
  class NAME : public ConvBase {                                                       \
   public:                                                                             \
    NAME(std::int64_t in_channels, std::int64_t out_channels, const Dims& kernel_size, \
         const ConvOptions& options = {});                                             \
    Tensor forward(const Tensor& x) const override;                                    \
                                                                                       \
    const ConvOptions options;                                                         \
  };
ETNA_CONV(Conv1d)
ETNA_CONV(Conv2d)
ETNA_CONV(Conv3d)
#undef ETNA_CONV

/// conv_transpose1d(x, weight, bias) and so on; weight [in, out / groups, kernel...].
#define ETNA_CONV_TRANSPOSE(NAME)                                                      \
  class NAME : public ConvBase {                                                       \
   public:                                                                             \
    NAME(std::int64_t in_channels, std::int64_t out_channels, const Dims& kernel_size, \
         const ConvTransposeOptions& options = {});                                    \
    Tensor forward(const Tensor& x) const override;                                    \
                                                                                       \
    const ConvTransposeOptions options;                                                \
  };
ETNA_CONV_TRANSPOSE(ConvTranspose1d)
ETNA_CONV_TRANSPOSE(ConvTranspose2d)
ETNA_CONV_TRANSPOSE(ConvTranspose3d)
#undef ETNA_CONV_TRANSPOSE

/// unfold(): [N, C, H, W] to [N, C · kernel elements, patches].
class Unfold : public UnaryModule {
 public:
  explicit Unfold(const Dims& kernel_size, const Dims& dilation = 1, const Dims& padding = 0, const Dims& stride = 1);
  Tensor forward(const Tensor& x) const override;

 private:
  Dims kernel_size_, dilation_, padding_, stride_;
};

/// fold(): [N, C · kernel elements, patches] to [N, C, H, W].
class Fold : public UnaryModule {
 public:
  Fold(const Dims& output_size, const Dims& kernel_size, const Dims& dilation = 1, const Dims& padding = 0,
       const Dims& stride = 1);
  Tensor forward(const Tensor& x) const override;

 private:
  Dims output_size_, kernel_size_, dilation_, padding_, stride_;
};

}  // namespace etna::nn
