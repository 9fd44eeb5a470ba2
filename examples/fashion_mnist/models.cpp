#include "models.h"

using namespace etna;

Cnn::Cnn()
    : conv1(1, 32, 3, {.padding = 1}),
      conv2(32, 64, 3, {.padding = 1}),
      conv3(64, 128, 3, {.padding = 1}),
      norm1(32),
      norm2(64),
      norm3(128),
      dropout(0.3),
      out(128 * 7 * 7, 10) {
  register_module("conv1", conv1);
  register_module("norm1", norm1);
  register_module("conv2", conv2);
  register_module("norm2", norm2);
  register_module("conv3", conv3);
  register_module("norm3", norm3);
  register_module("dropout", dropout);
  register_module("out", out);
}

Tensor Cnn::forward(const Tensor& x) const {
  Tensor h = max_pool2d(relu(norm1(conv1(x))), 2);
  h = max_pool2d(relu(norm2(conv2(h))), 2);
  h = relu(norm3(conv3(h)));
  return out(dropout(h.flatten(1)));
}

VisionTransformer::VisionTransformer() : patches(16, 96), positions(randn({49, 96}) * 0.02), norm(96), out(96, 10) {
  const nn::TransformerOptions options = {.dim_feedforward = 192,
                                          .dropout = 0,
                                          .activation = Activation::gelu_tanh,
                                          .batch_first = true,
                                          .norm_first = true};
  for (int i = 0; i < 4; ++i) layers.emplace_back(96, 4, options);
  register_module("patches", patches);
  register_parameter("positions", &VisionTransformer::positions);
  register_module("layers", layers);
  register_module("norm", norm);
  register_module("out", out);
}

Tensor VisionTransformer::forward(const Tensor& x) const {
  // [N, 1, 28, 28] to 7 x 7 patches of 4 x 4 pixels, a row each.
  const Tensor cut = x.reshape({-1, 7, 4, 7, 4}).permute({0, 1, 3, 2, 4}).reshape({-1, 49, 16});
  Tensor h = patches(cut) + positions;
  for (const auto& layer : layers) h = layer(h);
  return out(mean(norm(h), 1));
}
