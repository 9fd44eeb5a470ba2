#pragma once

#include <memory>

#include <etna/etna.h>

/// Three convolutions with batch norm, two of them behind a pooling, and a linear layer: 0.13 million parameters.
struct Cnn : etna::nn::UnaryModule {
  Cnn();
  etna::Tensor forward(const etna::Tensor& x) const override;

  etna::nn::Conv2d conv1, conv2, conv3;
  etna::nn::BatchNorm2d norm1, norm2, norm3;
  etna::nn::Dropout dropout;
  etna::nn::Linear out;
};

/// A vision transformer (Dosovitskiy et al. 2021): 49 patches of 4 x 4 pixels, 4 layers of 96 columns.
struct VisionTransformer : etna::nn::UnaryModule {
  VisionTransformer();
  etna::Tensor forward(const etna::Tensor& x) const override;

  etna::nn::Linear patches;
  etna::Tensor positions;
  etna::nn::ModuleList<etna::nn::TransformerEncoderLayer> layers;
  etna::nn::LayerNorm norm;
  etna::nn::Linear out;
};
