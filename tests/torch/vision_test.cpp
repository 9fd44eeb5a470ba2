#include <cmath>
#include <functional>
#include <map>

#include <gtest/gtest.h>

#include <etna/autograd/autograd.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/normalization/normalization.h>
#include <etna/tensor/ops/pooling/pooling.h>
#include <etna/tensor/ops/resample/resample.h>
#include <torch/figures.h>

namespace etna {
namespace {

using Inputs = std::map<std::string, Tensor>;
using Calls = std::map<std::string, std::function<Tensor(const Inputs&)>>;

/// The result and the running statistics, one behind the other.
Tensor normed(const Inputs& in, const Tensor& x, bool training, double momentum, double eps) {
  const Tensor mean = zeros({4}, x.device()), var = ones({4}, x.device());
  const Tensor y = batch_norm(x, mean, var, in.at("weight"), in.at("bias"), training, momentum, eps);
  return cat({y.reshape({y.numel()}), mean, var});
}

#define X(NAME, EXPRESSION)                                                                               \
  {                                                                                                       \
    NAME, [](const Inputs& in) {                                                                          \
      [[maybe_unused]] const Tensor &x1 = in.at("x1"), &x2 = in.at("x2"), &x3 = in.at("x3");              \
      [[maybe_unused]] const Tensor &weight = in.at("weight"), &bias = in.at("bias"), &g = in.at("grid"); \
      return EXPRESSION;                                                                                  \
    }                                                                                                     \
  }

const Calls& pooling_calls() {
  static const Calls calls = {
      X("max_pool1d", max_pool1d(x1, 3, 2, 1, 2, true)),
      X("max_pool2d", max_pool2d(x2, Dims({3, 2}), Dims({2, 1}), Dims({1, 0}))),
      X("max_pool3d", max_pool3d(x3, 2, 2, 1)),
      X("max_unpool2d", max_unpool2d(max_pool2d(x2, 2, 1), max_pool2d_with_indices(x2, 2, {1}).indices, 2, 1)),
      X("avg_pool1d", avg_pool1d(x1, 4, 3, 2, true)),
      X("avg_pool2d", avg_pool2d(x2, Dims({3, 2}), Dims({2, 3}), 1, true, false)),
      X("avg_pool2d_divisor", avg_pool2d(x2, 3, 2, 1, false, true, 5)),
      X("avg_pool3d", avg_pool3d(x3, Dims({3, 2, 2}), 2, 1, true)),
      X("adaptive_avg_pool1d", adaptive_avg_pool1d(x1, 4)),
      X("adaptive_avg_pool2d", adaptive_avg_pool2d(x2, Dims({3, -1}))),
      X("adaptive_avg_pool3d", adaptive_avg_pool3d(x3, Dims({5, 2, 3}))),
      X("adaptive_max_pool2d", adaptive_max_pool2d(x2, Dims({3, 4}))),
      X("adaptive_max_pool3d", adaptive_max_pool3d(x3, Dims({3, 3, 2}))),
      X("lp_pool1d", lp_pool1d(x1, 2, 3, 2, true)),
      X("lp_pool2d", lp_pool2d(x2, 4, Dims({2, 3}), {}, true)),
  };
  return calls;
}

using enum Interpolation;

const Calls& resampling_calls() {
  static const Calls calls = {
      X("pad_constant", pad(x2, std::vector<std::int64_t>({1, -2, -1, 3, 0, 1}), PadMode::constant, 2.5)),
      X("pad_reflect", pad(x2, std::vector<std::int64_t>({4, 2, 0, 3}), PadMode::reflect)),
      X("pad_replicate", pad(x3, std::vector<std::int64_t>({3, 1, 0, 2, 1, 7}), PadMode::replicate)),
      X("pad_circular", pad(x2, std::vector<std::int64_t>({5, 3, 2, 4}), PadMode::circular)),
      X("nearest", interpolate(x2, Dims({7, 3}))),
      X("nearest_scale", interpolate(x1, InterpolateOptions({.scale_factor = {1.7}}))),
      X("nearest_exact", interpolate(x3, Dims({3, 7, 4}), nearest_exact)),
      X("linear", interpolate(x1, 5, linear)),
      X("bilinear", interpolate(x2, InterpolateOptions({.scale_factor = {2.3, 0.6}, .mode = bilinear}))),
      X("bilinear_recomputed",
        interpolate(x2, InterpolateOptions({.scale_factor = {1.3}, .mode = bilinear, .recompute_scale_factor = true}))),
      X("bilinear_corners", interpolate(x2, Dims({7, 1}), bilinear, true)),
      X("trilinear", interpolate(x3, Dims({6, 2, 5}), trilinear)),
      X("bicubic", interpolate(x2, Dims({7, 3}), bicubic)),
      X("bicubic_corners", interpolate(x2, Dims({3, 8}), bicubic, true)),
      X("area", interpolate(x2, Dims({2, 8}), area)),
      X("affine_grid", affine_grid(in.at("theta2"), {2, 1, 3, 4})),
      X("affine_grid_corners", affine_grid(in.at("theta2"), {2, 1, 3, 1}, true)),
      X("affine_grid_volume", affine_grid(in.at("theta3"), {1, 1, 2, 3, 2})),
      X("pixel_shuffle", pixel_shuffle(x2, 2)),
      X("pixel_unshuffle", pixel_unshuffle(x2.slice(-1, 1, 5), 2)),
      X("channel_shuffle", channel_shuffle(x2, 2)),
      X("grid_sample_bilinear_zeros_0", grid_sample(x2, g)),
      X("grid_sample_bilinear_zeros_1", grid_sample(x2, g, GridSampleMode::bilinear, GridPadding::zeros, true)),
      X("grid_sample_bilinear_border_0", grid_sample(x2, g, GridSampleMode::bilinear, GridPadding::border)),
      X("grid_sample_bilinear_border_1", grid_sample(x2, g, GridSampleMode::bilinear, GridPadding::border, true)),
      X("grid_sample_bilinear_reflection_0", grid_sample(x2, g, GridSampleMode::bilinear, GridPadding::reflection)),
      X("grid_sample_bilinear_reflection_1",
        grid_sample(x2, g, GridSampleMode::bilinear, GridPadding::reflection, true)),
      X("grid_sample_nearest_zeros_0", grid_sample(x2, g, GridSampleMode::nearest)),
      X("grid_sample_nearest_zeros_1", grid_sample(x2, g, GridSampleMode::nearest, GridPadding::zeros, true)),
      X("grid_sample_nearest_border_0", grid_sample(x2, g, GridSampleMode::nearest, GridPadding::border)),
      X("grid_sample_nearest_border_1", grid_sample(x2, g, GridSampleMode::nearest, GridPadding::border, true)),
      X("grid_sample_nearest_reflection_0", grid_sample(x2, g, GridSampleMode::nearest, GridPadding::reflection)),
      X("grid_sample_nearest_reflection_1", grid_sample(x2, g, GridSampleMode::nearest, GridPadding::reflection, true)),
  };
  return calls;
}

const Calls& normalization_calls() {
  static const Calls calls = {
      X("batch_norm", normed(in, x2, true, 0.3, 1e-5)),
      X("batch_norm_eval", normed(in, x2 * 1e2, false, 0.1, 1e-3)),
      X("instance_norm", instance_norm(x2, {}, {}, weight, bias)),
      X("group_norm", group_norm(x2, 2, weight, bias)),
      X("local_response_norm", local_response_norm(x2, 3, 0.5, 0.6, 1.5)),
      X("local_response_norm_even", local_response_norm(x1, 4)),
  };
  return calls;
}
#undef X

void expect_figures(const Calls& calls) {
  const nlohmann::json all = figures::load("vision");
  for (Device device : figures::devices()) {
    Inputs in;
    for (const auto& [name, figure] : all["inputs"].items())
      in[name] = figures::tensor(figure, device).requires_grad_();
    for (const auto& [name, call] : calls) {
      SCOPED_TRACE(device.str());
      const nlohmann::json& figure = all["cases"].at(name);
      const Tensor y = call(in);
      figures::expect_close(y, figure["value"], 1e-5, name);
      std::vector<float> seed(static_cast<std::size_t>(y.numel()));
      for (std::size_t i = 0; i < seed.size(); ++i) seed[i] = static_cast<float>(std::cos(static_cast<double>(i)));
      for (const auto& [input, wanted] : figure["gradients"].items()) {
        const TensorList got = autograd::grad(TensorList{y}, TensorList{in.at(input)},
                                              TensorList{from_vector(seed, y.shape(), device)}, true);
        figures::expect_close(got[0], wanted, 2e-5, name + ", gradient of " + input);
      }
    }
  }
}

TEST(TorchVision, PoolingAgrees) { expect_figures(pooling_calls()); }
TEST(TorchVision, ResamplingAgrees) { expect_figures(resampling_calls()); }
TEST(TorchVision, NormalizationAgrees) { expect_figures(normalization_calls()); }

TEST(TorchVision, EveryFigureIsCompared) {
  const nlohmann::json all = figures::load("vision");
  EXPECT_EQ(all["cases"].size(), pooling_calls().size() + resampling_calls().size() + normalization_calls().size());
}

TEST(TorchVision, IndicesOfMaximaAgree) {
  const nlohmann::json all = figures::load("vision");
  for (Device device : figures::devices()) {
    const MaxPooled tied = max_pool1d_with_indices(figures::tensor(all["tied"], device), 3, {1, 1});
    figures::expect_close(tied.values, all["tied_values"], 0, "ties, NaN and infinities");
    figures::expect_close(tied.indices, all["tied_indices"], 0, "their indices");
    const Tensor x3 = figures::tensor(all["inputs"]["x3"], device), x2 = figures::tensor(all["inputs"]["x2"], device);
    figures::expect_close(max_pool3d_with_indices(x3, 2, {2, 1}).indices, all["max_indices"], 0, "max_pool3d");
    figures::expect_close(adaptive_max_pool2d_with_indices(x2, {3, 4}).indices, all["adaptive_indices"], 0, "adaptive");
  }
}

}  // namespace
}  // namespace etna
