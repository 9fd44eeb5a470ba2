#include <etna/tensor/ops/pooling/pooling.h>
#include <etna/tensor/ops/resample/resample.h>

#include "conformance/samples.h"

namespace etna::conformance {

std::vector<Sample> samples_in_resample() {
  auto average = [](const TensorList& in) { return avg_pool2d(in[0], {3, 2}, 2, {1, 0}, true, false); };
  auto padded = [](const TensorList& in) { return avg_pool1d(in[0].permute({1, 0}), 4, 3, 2); };
  auto adaptive = [](const TensorList& in) { return adaptive_avg_pool2d(in[0], {3, 4}); };
  auto whole = [](const TensorList& in) { return adaptive_avg_pool2d(in[0], 1); };
  auto lp = [](const TensorList& in) { return lp_pool1d(in[0], 3, 2); };
  std::vector<Sample> all = {
      Sample("resample", "means of windows").in({2, 5, 7}).calls(average),
      Sample("resample", "padding counts").in({11, 2}).calls(padded),
      Sample("resample", "adaptive").in({2, 5, 3}).calls(adaptive),
      Sample("resample", "no images").in({0, 5, 3}).calls(adaptive),
      Sample("adaptive_avg_pool2d", "to one element").in({2, 3, 5}).composed().calls(whole),
      Sample("adaptive_avg_pool2d", "no images").in({0, 3, 5}).composed().calls(whole),
      Sample("lp_pool1d", "no lists").in({0, 7}).composed().calls(lp),
      Sample("lp_pool1d", "cubes").in({2, 7}, 0.5, 2).looser_halves(4).composed().calls(lp),
  };
  using enum Interpolation;
  auto interpolated = [&](const char* name, Shape shape, Dims size, Interpolation mode, bool align_corners) {
    auto call = [=](const TensorList& in) { return interpolate(in[0], size, mode, align_corners); };
    all.push_back(Sample("resample", name).in(shape).calls(call));
  };
  interpolated("nearest, larger", {1, 2, 5}, 11, nearest, false);
  interpolated("nearest, exact, smaller", {1, 1, 5, 7}, {3, 2}, nearest_exact, false);
  interpolated("linear, corners", {1, 1, 3, 4}, {5, 3}, bilinear, true);
  interpolated("linear", {1, 1, 3, 4}, {7, 3}, bilinear, false);
  interpolated("cubic", {1, 1, 4, 3}, {3, 7}, bicubic, false);
  auto mode = [&](const char* name, PadMode mode) {
    auto call = [=](const TensorList& in) { return pad(in[0], {2, 1, 1, 3}, mode); };
    all.push_back(Sample("resample", name).in({2, 4, 3}).calls(call));
  };
  mode("padding, reflect", PadMode::reflect);
  mode("padding, replicate", PadMode::replicate);
  mode("padding, circular", PadMode::circular);
  auto constant = [](const TensorList& in) { return pad(in[0], {1, -1, -2, 3}, PadMode::constant, 2); };
  auto constant_nothing = [](const TensorList& in) { return pad(in[0], {1, 2}, PadMode::constant, 2); };
  all.push_back(Sample("pad_constant", "and cropped").in({3, 4}).and_integers().and_bool().calls(constant));
  all.push_back(Sample("pad_constant", "nothing").in({2, 0}).calls(constant_nothing));
  return all;
}

}  // namespace etna::conformance
