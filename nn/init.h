#pragma once

#include <etna/tensor/tensor.h>

/// Initializers: fill a parameter in place, off the tape, and return it. Random ones draw from the process's generator
/// (manual_seed), which gives the same bits on every device.
namespace etna::nn::init {

Tensor constant_(Tensor x, double value);
Tensor zeros_(Tensor x);
Tensor ones_(Tensor x);
Tensor uniform_(Tensor x, double low = 0, double high = 1);
Tensor normal_(Tensor x, double mean = 0, double std = 1);
/// Uniform in ±gain·√(6/(fan_in + fan_out)) (Glorot & Bengio 2010). @throws ShapeError for fewer than two dimensions
Tensor xavier_uniform_(Tensor x, double gain = 1);
/// Uniform in ±gain·√(3/fan_in), gain = √(2/(1 + a²)) (He et al. 2015); a = √5 gives ±1/√fan_in, a Linear's default.
/// @throws ShapeError for fewer than two dimensions
Tensor kaiming_uniform_(Tensor x, double a = 0);

}  // namespace etna::nn::init
