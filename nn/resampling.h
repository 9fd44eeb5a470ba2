#pragma once

#include <vector>

#include <etna/nn/module.h>
#include <etna/tensor/resampling.h>

/// Padding, resizing and reshaping as modules, for Sequential.
namespace etna::nn {

/// The base of the padding modules. One number pads every side of every spatial dimension; otherwise two for each, the
/// last dimension first, as in pad().
class Padding : public UnaryModule {
 public:
  Tensor forward(const Tensor& x) const override { return pad(x, padding, mode, value); }

  std::vector<std::int64_t> padding;
  PadMode mode;
  double value;

 protected:
  Padding(const char* name, const Dims& padding, int spatial, PadMode mode, double value = 0);
};

#define ETNA_PADDING_MODULES(N)                                                                                     \
  struct ZeroPad##N##d : Padding {                                                                                  \
    explicit ZeroPad##N##d(Dims padding) : Padding("ZeroPad", padding, N, PadMode::constant) {}                     \
  };                                                                                                                \
  struct ConstantPad##N##d : Padding {                                                                              \
    ConstantPad##N##d(Dims padding, double value) : Padding("ConstantPad", padding, N, PadMode::constant, value) {} \
  };                                                                                                                \
  struct ReflectionPad##N##d : Padding {                                                                            \
    explicit ReflectionPad##N##d(Dims padding) : Padding("ReflectionPad", padding, N, PadMode::reflect) {}          \
  };                                                                                                                \
  struct ReplicationPad##N##d : Padding {                                                                           \
    explicit ReplicationPad##N##d(Dims padding) : Padding("ReplicationPad", padding, N, PadMode::replicate) {}      \
  };                                                                                                                \
  struct CircularPad##N##d : Padding {                                                                              \
    explicit CircularPad##N##d(Dims padding) : Padding("CircularPad", padding, N, PadMode::circular) {}             \
  };
ETNA_PADDING_MODULES(1)
ETNA_PADDING_MODULES(2)
ETNA_PADDING_MODULES(3)
#undef ETNA_PADDING_MODULES

/// interpolate() with these options.
class Upsample : public UnaryModule {
 public:
  explicit Upsample(const InterpolateOptions& options) : options(options) {}
  Tensor forward(const Tensor& x) const override { return interpolate(x, options); }

  InterpolateOptions options;
};
/// Twice as large, or any other factor: nearest, and bilinear between the corners.
class UpsamplingNearest2d : public Upsample {
 public:
  explicit UpsamplingNearest2d(double scale_factor) : Upsample({{scale_factor}}) {}
};
class UpsamplingBilinear2d : public Upsample {
 public:
  explicit UpsamplingBilinear2d(double scale_factor) : Upsample({{scale_factor}, {}, Interpolation::bilinear, true}) {}
};

class PixelShuffle : public UnaryModule {
 public:
  explicit PixelShuffle(std::int64_t upscale_factor) : upscale_factor(upscale_factor) {}
  Tensor forward(const Tensor& x) const override { return pixel_shuffle(x, upscale_factor); }

  std::int64_t upscale_factor;
};
class PixelUnshuffle : public UnaryModule {
 public:
  explicit PixelUnshuffle(std::int64_t downscale_factor) : downscale_factor(downscale_factor) {}
  Tensor forward(const Tensor& x) const override { return pixel_unshuffle(x, downscale_factor); }

  std::int64_t downscale_factor;
};
class ChannelShuffle : public UnaryModule {
 public:
  explicit ChannelShuffle(std::int64_t groups) : groups(groups) {}
  Tensor forward(const Tensor& x) const override { return channel_shuffle(x, groups); }

  std::int64_t groups;
};

/// Merges dimensions start_dim ... end_dim; by default all but the first.
class Flatten : public UnaryModule {
 public:
  explicit Flatten(std::int64_t start_dim = 1, std::int64_t end_dim = -1) : start_dim(start_dim), end_dim(end_dim) {}
  Tensor forward(const Tensor& x) const override { return x.flatten(start_dim, end_dim); }

  std::int64_t start_dim, end_dim;
};
/// Splits one dimension into several.
class Unflatten : public UnaryModule {
 public:
  Unflatten(std::int64_t dim, Dims unflattened_size) : dim(dim), unflattened_size(unflattened_size) {}
  Tensor forward(const Tensor& x) const override;

  std::int64_t dim;
  Dims unflattened_size;
};

}  // namespace etna::nn
