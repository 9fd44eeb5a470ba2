#include <cmath>

#include <gtest/gtest.h>

#include <etna/nn/containers.h>
#include <etna/nn/convolution.h>
#include <etna/tensor/ops.h>
#include <nn/on_device.h>

namespace etna::nn {
namespace {

class ConvolutionLayers : public OnDevice {};
ETNA_ON_EVERY_DEVICE(ConvolutionLayers);

TEST_P(ConvolutionLayers, AreTheFunctionsWithTheirOptions) {
  manual_seed(2);
  auto draw = [](Shape shape) { return randn(shape, {f32, device()}); };
  Conv1d one(4, 6, 3, {.padding = "same", .dilation = 2});
  Conv2d two(4, 6, {3, 2}, {.stride = {2, 1}, .padding = 1, .groups = 2, .bias = false});
  Conv3d three(2, 3, 2);
  ConvTranspose1d back(4, 6, 3, {.stride = 2, .output_padding = 1});
  ConvTranspose2d back2(4, 6, {3, 2}, {.padding = 1, .groups = 2, .dilation = 2});
  ConvTranspose3d back3(2, 3, 2, {.bias = false});
  for (Module* m : std::initializer_list<Module*>{&one, &two, &three, &back, &back2, &back3}) m->to(device());
  const Tensor a = draw({2, 4, 7}), b = draw({2, 4, 5, 6}), c = draw({1, 2, 3, 3, 3});
  expect_near(one(a), conv1d(a, one.weight, one.bias, 1, "same", 2), 1e-6);
  expect_near(two(b), conv2d(b, two.weight, {}, {2, 1}, 1, 1, 2), 1e-6);
  expect_near(three(c), conv3d(c, three.weight, three.bias), 1e-6);
  expect_near(back(a), conv_transpose1d(a, back.weight, back.bias, 2, 0, 1), 1e-6);
  expect_near(back2(b), conv_transpose2d(b, back2.weight, back2.bias, 1, 1, 0, 2, 2), 1e-6);
  expect_near(back3(c), conv_transpose3d(c, back3.weight), 1e-6);
  EXPECT_FALSE(two.bias.defined());
  EXPECT_EQ(two.weight.shape(), Shape({6, 2, 3, 2}));
  EXPECT_EQ(back2.weight.shape(), Shape({4, 3, 3, 2}));
  const Tensor patches = Unfold({2, 3}, 1, 1, 2)(b);
  expect_near(patches, unfold(b, {2, 3}, 1, 1, 2), 1e-6);
  expect_near(Fold({5, 6}, {2, 3}, 1, 1, 2)(patches), fold(patches, {5, 6}, {2, 3}, 1, 1, 2), 1e-6);
}

TEST(ConvolutionLayer, HasPyTorchsNamesAndInitialization) {
  Conv2d conv(8, 16, 3);
  const StateDict state = conv.state_dict();
  EXPECT_EQ(state.size(), 2u);
  EXPECT_EQ(state.at("weight").shape(), Shape({16, 8, 3, 3}));
  EXPECT_EQ(state.at("bias").shape(), Shape({16}));
  const double bound = 1 / std::sqrt(8.0 * 9);
  EXPECT_LE(abs(conv.weight).max().item<double>(), bound);
  EXPECT_GT(abs(conv.weight).max().item<double>(), 0.95 * bound);
  EXPECT_LE(abs(conv.bias).max().item<double>(), bound);
  // A transposed layer's fan-in is that of the weight's second dimension.
  ConvTranspose2d back(4, 32, 3);
  EXPECT_LE(abs(back.weight).max().item<double>(), 1 / std::sqrt(32.0 * 9));
}

TEST(ConvolutionLayer, RefusesWhatItDoesNotKnow) {
  EXPECT_THROW(Conv2d(4, 6, 3, {.padding_mode = "mirror"}), Error);
  EXPECT_THROW(ConvTranspose2d(4, 6, 3, {.padding_mode = "reflect"}), Error);
  EXPECT_THROW(Conv2d(4, 6, 3, {.stride = 2, .padding = "same"}), Error);
  EXPECT_THROW(Conv2d(4, 6, 3, {.padding = {1, 1, 1}, .padding_mode = "circular"}), ShapeError);
  EXPECT_THROW(Conv2d(4, 6, 3, {.groups = 3}), ShapeError);
  EXPECT_THROW(Conv2d(4, 6, {1, 2, 3}), ShapeError);
  EXPECT_THROW(Conv1d(4, 6, 0), ShapeError);
}

}  // namespace
}  // namespace etna::nn
