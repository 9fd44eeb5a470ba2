#include <etna/nn/resampling.h>

#include <fmt/format.h>

#include <etna/nn/module.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/rearrange/rearrange.h>

namespace etna::nn {
namespace {

const char* name_of(Interpolation mode) {
  switch (mode) {
    case Interpolation::nearest:
      return "nearest";
    case Interpolation::nearest_exact:
      return "nearest-exact";
    case Interpolation::linear:
      return "linear";
    case Interpolation::bilinear:
      return "bilinear";
    case Interpolation::trilinear:
      return "trilinear";
    case Interpolation::bicubic:
      return "bicubic";
    case Interpolation::area:
      return "area";
  }
  return "";
}

InterpolateOptions with_mode(InterpolateOptions options, Interpolation mode, bool align_corners) {
  options.mode = mode, options.align_corners = align_corners;
  return options;
}

}  // namespace

PaddingModule::PaddingModule(const char* name, const Dims& given, int spatial, PadMode mode, double value)
    : mode(mode), value(value) {
  const std::size_t sides = 2 * static_cast<std::size_t>(spatial);
  if (given.size() != 1 && given.size() != sides)
    throw ShapeError(fmt::format("{}{}d: padding is {}; pass one number or {}", name, spatial, str(given), sides));
  for (std::size_t i = 0; i < sides; ++i) padding.push_back(given[given.size() == 1 ? 0 : static_cast<int>(i)]);
}

std::string PaddingModule::extra_repr() const { return repr_of(Dims(padding)); }

#define ETNA_PADDING_MODULE(NAME, N, MODE)                                                  \
  NAME##N##d::NAME##N##d(Dims padding) : PaddingModule(#NAME, padding, N, PadMode::MODE) {} \
  std::unique_ptr<Module> NAME##N##d::another() const { return std::make_unique<NAME##N##d>(Dims(padding)); }
#define ETNA_PADDING_MODULES(N)                                                                 \
  ETNA_PADDING_MODULE(ZeroPad, N, constant)                                                     \
  ETNA_PADDING_MODULE(ReflectionPad, N, reflect)                                                \
  ETNA_PADDING_MODULE(ReplicationPad, N, replicate)                                             \
  ETNA_PADDING_MODULE(CircularPad, N, circular)                                                 \
  ConstantPad##N##d::ConstantPad##N##d(Dims padding, double value)                              \
      : PaddingModule("ConstantPad", padding, N, PadMode::constant, value) {}                   \
  std::string ConstantPad##N##d::extra_repr() const {                                           \
    return fmt::format("padding={}, {}", PaddingModule::extra_repr(), repr_of("value", value)); \
  }                                                                                             \
  std::unique_ptr<Module> ConstantPad##N##d::another() const {                                  \
    return std::make_unique<ConstantPad##N##d>(Dims(padding), value);                           \
  }
ETNA_PADDING_MODULES(1)
ETNA_PADDING_MODULES(2)
ETNA_PADDING_MODULES(3)
#undef ETNA_PADDING_MODULES
#undef ETNA_PADDING_MODULE

#define ETNA_SHUFFLE(NAME, NUMBER, FUNCTION)                                           \
  NAME::NAME(std::int64_t NUMBER) : NUMBER(checked_size(#NAME, #NUMBER, NUMBER, 1)) {} \
  Tensor NAME::forward(const Tensor& x) const { return FUNCTION(x, NUMBER); }          \
  std::string NAME::extra_repr() const { return fmt::format(#NUMBER "={}", NUMBER); }  \
  std::unique_ptr<Module> NAME::another() const { return std::make_unique<NAME>(NUMBER); }
ETNA_SHUFFLE(PixelShuffle, upscale_factor, pixel_shuffle)
ETNA_SHUFFLE(PixelUnshuffle, downscale_factor, pixel_unshuffle)
ETNA_SHUFFLE(ChannelShuffle, groups, channel_shuffle)
#undef ETNA_SHUFFLE

std::string Upsample::extra_repr() const {
  std::string what;
  if (options.scale_factor.size() == 1) {
    what = repr_of("scale_factor", options.scale_factor[0]);
  } else if (!options.scale_factor.empty()) {
    for (const double factor : options.scale_factor) what += (what.empty() ? "" : ", ") + repr_of(factor);
    what = "scale_factor=(" + what + ")";
  } else {
    what = "size=" + repr_of(options.size);
  }
  return fmt::format("{}, mode={}", what, name_of(options.mode));
}

UpsamplingNearest2d::UpsamplingNearest2d(const InterpolateOptions& given)
    : Upsample(with_mode(given, Interpolation::nearest, false)) {}
UpsamplingBilinear2d::UpsamplingBilinear2d(const InterpolateOptions& given)
    : Upsample(with_mode(given, Interpolation::bilinear, true)) {}

std::string Flatten::extra_repr() const { return fmt::format("start_dim={}, end_dim={}", start_dim, end_dim); }

Tensor Unflatten::forward(const Tensor& x) const { return unflatten(x, dim, unflattened_size); }
std::string Unflatten::extra_repr() const {
  return fmt::format("dim={}, unflattened_size={}", dim,
                     unflattened_size.rank() == 1 ? tuple_of(unflattened_size, 1) : repr_of(unflattened_size));
}

Upsample::Upsample(const InterpolateOptions& options) : options(options) {}

std::unique_ptr<Module> Upsample::another() const { return std::make_unique<Upsample>(options); }

UpsamplingNearest2d::UpsamplingNearest2d(double scale_factor) : Upsample({{scale_factor}}) {}

std::unique_ptr<Module> UpsamplingNearest2d::another() const { return std::make_unique<UpsamplingNearest2d>(options); }

UpsamplingBilinear2d::UpsamplingBilinear2d(double scale_factor)
    : Upsample({{scale_factor}, {}, Interpolation::bilinear, true}) {}

std::unique_ptr<Module> UpsamplingBilinear2d::another() const {
  return std::make_unique<UpsamplingBilinear2d>(options);
}

Flatten::Flatten(std::int64_t start_dim, std::int64_t end_dim) : start_dim(start_dim), end_dim(end_dim) {}

std::unique_ptr<Module> Flatten::another() const { return std::make_unique<Flatten>(start_dim, end_dim); }

Unflatten::Unflatten(std::int64_t dim, Dims unflattened_size) : dim(dim), unflattened_size(unflattened_size) {}

std::unique_ptr<Module> Unflatten::another() const { return std::make_unique<Unflatten>(dim, unflattened_size); }

}  // namespace etna::nn
