#include <functional>
#include <map>

#include <gtest/gtest.h>

#include <etna/autograd/autograd.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/convolution/convolution.h>
#include <torch/figures.h>

namespace etna {
namespace {

using ConvolutionCall = std::function<Tensor(const TensorList&)>;
using ConvolutionIn = const TensorList&;

const std::map<std::string, ConvolutionCall>& convolution_calls() {
  static const std::map<std::string, ConvolutionCall> all = {
      {"conv2d", [](ConvolutionIn in) { return conv2d(in[0], in[1], in[2]); }},
      {"conv2d_settings",
       [](ConvolutionIn in) {
         return conv2d(in[0], in[1], in[2], {2, 1}, {1, 2}, {1, 2});
       }},
      {"conv2d_same",
       [](ConvolutionIn in) {
         return conv2d(in[0], in[1], in[2], 1, "same", {2, 1});
       }},
      {"conv2d_valid",
       [](ConvolutionIn in) {
         return conv2d(in[0], ones({1, 4, 2, 2}, in[0].device()), {}, 1, "valid");
       }},
      {"conv2d_groups", [](ConvolutionIn in) { return conv2d(in[0], in[1], in[2], 1, 1, 1, 2); }},
      {"conv2d_depthwise", [](ConvolutionIn in) { return conv2d(in[0], in[1], {}, 2, 1, 1, 4); }},
      {"conv2d_unbatched", [](ConvolutionIn in) { return conv2d(in[0], in[1], in[2], 1, 1); }},
      {"conv1d", [](ConvolutionIn in) { return conv1d(in[0], in[1], in[2], 2, 3, 2); }},
      {"conv1d_unbatched", [](ConvolutionIn in) { return conv1d(in[0], in[1]); }},
      {"conv3d",
       [](ConvolutionIn in) {
         return conv3d(in[0], in[1], in[2], {1, 2, 1}, {1, 0, 1});
       }},
      {"conv_transpose1d", [](ConvolutionIn in) { return conv_transpose1d(in[0], in[1], in[2], 3, 1, 2, 1, 2); }},
      {"conv_transpose2d", [](ConvolutionIn in) { return conv_transpose2d(in[0], in[1], in[2]); }},
      {"conv_transpose2d_settings",
       [](ConvolutionIn in) {
         return conv_transpose2d(in[0], in[1], in[2], {2, 3}, {1, 0}, {1, 2}, 2);
       }},
      {"conv_transpose2d_dilated", [](ConvolutionIn in) { return conv_transpose2d(in[0], in[1], {}, 1, 0, 1, 1, 2); }},
      {"conv_transpose3d",
       [](ConvolutionIn in) {
         return conv_transpose3d(in[0], in[1], in[2], {1, 2, 2}, 1, {0, 1, 0});
       }},
      {"unfold",
       [](ConvolutionIn in) {
         return unfold(in[0], {2, 3}, 2, {1, 2}, {2, 1});
       }},
      {"unfold_unbatched", [](ConvolutionIn in) { return unfold(in[0], 2); }},
      {"fold",
       [](ConvolutionIn in) {
         return fold(in[0], {5, 4}, {2, 3}, 1, {1, 0}, {2, 1});
       }},
  };
  return all;
}

TEST(TorchConvolution, ValuesAndGradientsOfBothOrders) {
  const nlohmann::json all = figures::load("convolution");
  for (Device device : figures::devices()) {
    for (const auto& [name, figure] : all["cases"].items()) {
      TensorList in;
      for (const auto& x : figure["inputs"]) in.push_back(figures::tensor(x, device).to(f32).requires_grad_());
      const Tensor y = convolution_calls().at(name)(in);
      figures::expect_close(y, figure["value"], 1e-5, name);
      const TensorList seed = {figures::tensor(figure["seed"], device).to(f32)};
      const TensorList first = autograd::grad(TensorList{y}, in, seed, true, true);
      Tensor squares = scalar(0, device);
      for (std::size_t i = 0; i < in.size(); ++i) {
        figures::expect_close(first[i], figure["gradients"][i], 1e-5, name + ", gradient");
        squares = squares + sum(square(first[i]));
      }
      if (!figure.contains("second")) continue;
      const TensorList second = autograd::grad(TensorList{squares}, TensorList{in[0], in[1]}, TensorList{});
      for (std::size_t i = 0; i < 2; ++i)
        figures::expect_close(second[i], figure["second"][i], 1e-5, name + ", second gradient");
    }
  }
}

}  // namespace
}  // namespace etna
