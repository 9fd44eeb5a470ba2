#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <type_traits>
#include <utility>
#include <vector>

#include <etna/data/dataset.h>
#include <etna/tensor/tensor.h>

/// Functions of one picture [C, H, W] on the CPU, as torchvision has them. What is random draws from the numbers of its
/// sample (see Dataset::sample), so workers do not change results.
///
///     auto augment = transforms::compose({transforms::random_crop(32, {.padding = 4}),
///                                         transforms::random_horizontal_flip(),
///                                         transforms::to_float(), transforms::normalize({0.5}, {0.25})});
///     data::DataLoader loader(transforms::on_data(data::Cifar10(folder), augment), {.batch_size = 128});
namespace etna::data::transforms {

/// Takes a picture, or a picture and random numbers.
class Transform {
 public:
  template <typename F>
  requires std::is_invocable_r_v<Tensor, F, const Tensor&, Random&> Transform(F function)
      : function_(std::move(function)) {}
  template <typename F>
  requires(std::is_invocable_r_v<Tensor, F, const Tensor&> && !std::is_invocable_v<F, const Tensor&, Random&> &&
           !std::same_as<std::decay_t<F>, Transform>) Transform(F function)
      : function_([f = std::move(function)](const Tensor& image, Random&) { return f(image); }) {}

  Tensor operator()(const Tensor& image, Random& random) const { return function_(image, random); }
  /// With the random numbers of seed 0.
  Tensor operator()(const Tensor& image) const {
    Random random;
    return function_(image, random);
  }

 private:
  std::function<Tensor(const Tensor&, Random&)> function_;
};

/// One after the other.
Transform compose(std::vector<Transform> transforms);

/// u8 to f32 in [0, 1]; other dtypes to f32 of the same value.
Transform to_float();
/// (x - mean) / std for each channel; one number serves all. Takes and gives f32.
/// Here and below: @throws Error for settings out of range; when it runs, ShapeError for anything but [C, H, W] with
/// sizes above 0, DtypeError for a dtype it does not take
Transform normalize(std::vector<double> mean, std::vector<double> std);

struct CropOptions {
  std::int64_t padding = 0;    ///< on all four sides, before the crop
  double fill = 0;             ///< of the padding
  bool pad_if_needed = false;  ///< pad pictures that are too small, which is an error otherwise
};
/// A window of height x width at a random place.
Transform random_crop(std::int64_t height, std::int64_t width, CropOptions options = {});
inline Transform random_crop(std::int64_t size, CropOptions options = {}) { return random_crop(size, size, options); }
/// The window in the middle; a smaller picture is padded with 0.
Transform center_crop(std::int64_t height, std::int64_t width);
inline Transform center_crop(std::int64_t size) { return center_crop(size, size); }
/// Mirrors left and right, or top and bottom, with this probability.
Transform random_horizontal_flip(double p = 0.5);
Transform random_vertical_flip(double p = 0.5);

enum class Interpolation { nearest, bilinear };
/// Scales to height x width, as torch.nn.functional.interpolate() with align_corners = False does, without
/// antialiasing. Bilinear takes f32 and u8 (rounded to the nearest, halves to even).
Transform resize(std::int64_t height, std::int64_t width, Interpolation interpolation = Interpolation::bilinear);

/// Weights of pixels by their distance: a triangle, Keys's cubic with a = -1/2, or a sinc of three lobes.
enum class ResampleFilter { bilinear, bicubic, lanczos };
/// Scales u8 to height x width with antialiasing, to the bit as Pillow's Image.resize() does: along rows, then along
/// columns, with the filter stretched where the picture becomes smaller, and rounded to bytes after each.
Transform resample(std::int64_t height, std::int64_t width, ResampleFilter filter = ResampleFilter::bilinear);

/// The dataset of Examples with `transform` applied to the data of each.
template <typename D>
auto on_data(D dataset, Transform transform) {
  return transformed(std::move(dataset), [transform = std::move(transform)](Example example, Random& random) {
    example.data = transform(example.data, random);
    return example;
  });
}

}  // namespace etna::data::transforms
