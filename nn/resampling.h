#pragma once

#include <vector>

#include <etna/nn/module.h>
#include <etna/tensor/ops/resample/resample.h>

/// Padding, resizing and reshaping as modules, for Sequential.
namespace etna::nn {

/// The base of the padding modules. One number pads every side of every spatial dimension; otherwise two for each, the
/// last dimension first, as in pad().
class PaddingModule : public UnaryModule {
 public:
  Tensor forward(const Tensor& x) const override { return pad(x, padding, mode, value); }
  std::string extra_repr() const override;

  std::vector<std::int64_t> padding;
  PadMode mode;
  double value;

 protected:
  PaddingModule(const char* name, const Dims& padding, int spatial, PadMode mode, double value = 0);
};

#define ETNA_PADDING_MODULE(NAME, N)                  \
  class NAME##N##d : public PaddingModule {           \
   public:                                            \
    explicit NAME##N##d(Dims padding);                \
                                                      \
   protected:                                         \
    std::unique_ptr<Module> another() const override; \
  };
#define ETNA_PADDING_MODULES(N)                       \
  ETNA_PADDING_MODULE(ZeroPad, N)                     \
  ETNA_PADDING_MODULE(ReflectionPad, N)               \
  ETNA_PADDING_MODULE(ReplicationPad, N)              \
  ETNA_PADDING_MODULE(CircularPad, N)                 \
  class ConstantPad##N##d : public PaddingModule {    \
   public:                                            \
    ConstantPad##N##d(Dims padding, double value);    \
    std::string extra_repr() const override;          \
                                                      \
   protected:                                         \
    std::unique_ptr<Module> another() const override; \
  };
ETNA_PADDING_MODULES(1)
ETNA_PADDING_MODULES(2)
ETNA_PADDING_MODULES(3)
#undef ETNA_PADDING_MODULES
#undef ETNA_PADDING_MODULE

/// interpolate() with these options.
class Upsample : public UnaryModule {
 public:
  explicit Upsample(const InterpolateOptions& options);
  Tensor forward(const Tensor& x) const override { return interpolate(x, options); }
  std::string extra_repr() const override;

  InterpolateOptions options;

 protected:
  std::unique_ptr<Module> another() const override;
};
/// To a size, or twice as large, or by any other factor: nearest, and bilinear between the corners.
class UpsamplingNearest2d : public Upsample {
 public:
  explicit UpsamplingNearest2d(double scale_factor);
  explicit UpsamplingNearest2d(const InterpolateOptions& size_or_scale);

 protected:
  std::unique_ptr<Module> another() const override;
};
/// interpolate() of images by Interpolation::bilinear with aligned corners.
class UpsamplingBilinear2d : public Upsample {
 public:
  explicit UpsamplingBilinear2d(double scale_factor);
  explicit UpsamplingBilinear2d(const InterpolateOptions& size_or_scale);

 protected:
  std::unique_ptr<Module> another() const override;
};

#define ETNA_SHUFFLE(NAME, NUMBER)                    \
  class NAME : public UnaryModule {                   \
   public:                                            \
    explicit NAME(std::int64_t NUMBER);               \
    Tensor forward(const Tensor& x) const override;   \
    std::string extra_repr() const override;          \
                                                      \
    std::int64_t NUMBER;                              \
                                                      \
   protected:                                         \
    std::unique_ptr<Module> another() const override; \
  };
ETNA_SHUFFLE(PixelShuffle, upscale_factor)
ETNA_SHUFFLE(PixelUnshuffle, downscale_factor)
ETNA_SHUFFLE(ChannelShuffle, groups)
#undef ETNA_SHUFFLE

/// Merges dimensions start_dim ... end_dim; by default all but the first.
class Flatten : public UnaryModule {
 public:
  explicit Flatten(std::int64_t start_dim = 1, std::int64_t end_dim = -1);
  Tensor forward(const Tensor& x) const override { return x.flatten(start_dim, end_dim); }
  std::string extra_repr() const override;

  std::int64_t start_dim, end_dim;

 protected:
  std::unique_ptr<Module> another() const override;
};
/// Splits one dimension into several.
class Unflatten : public UnaryModule {
 public:
  Unflatten(std::int64_t dim, Dims unflattened_size);
  Tensor forward(const Tensor& x) const override;
  std::string extra_repr() const override;

  std::int64_t dim;
  Dims unflattened_size;

 protected:
  std::unique_ptr<Module> another() const override;
};

}  // namespace etna::nn
