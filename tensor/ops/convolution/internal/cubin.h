#pragma once

#include <etna/tensor/ops/convolution/internal/geometry.h>

/// Convolutions of one or two dimensions on Hopper, whose copy engine gathers patches itself
/// (shaders/sm90/patches.cuh). Tensors are contiguous and channels-last. Each function returns false, having recorded
/// nothing, if the kernels do not apply.
namespace etna::convolution {

bool convolve_by_cubin(const OpCall& call, const Geometry& g, const Tensor& x, const Tensor& weight, const Tensor& bias,
                       const Tensor& y);
/// Requires stride 1.
bool input_gradient_by_cubin(const OpCall& call, const Geometry& g, const Tensor& y, const Tensor& weight,
                             const Tensor& bias, const Tensor& x);
/// True if the transpose of the weight's gradient is computed: tiles of 64 columns suit a y with few channels.
bool weight_is_made_across(const Geometry& g, const Tensor& x);
bool weight_gradient_by_cubin(const OpCall& call, const Geometry& g, const Tensor& x, const Tensor& y,
                              const Tensor& weight);

}  // namespace etna::convolution
