#pragma once

#include <etna/tensor/ops/convolution/internal/geometry.h>

/// Convolutions of one or two dimensions on Hopper, whose copy engine gathers patches itself
/// (shaders/sm90/patches.cuh). Tensors are contiguous and channels-last. Each function returns false, having recorded
/// nothing, if the kernels do not apply.
namespace etna::convolution {

bool convolve_by_cubin(const OpCall& call, const Geometry& g, const Tensor& x, const Tensor& weight, const Tensor& bias,
                       const Tensor& y);
/// True if input_gradient_by_cubin() has a kernel for it, unless the sizes are small.
bool has_input_gradient_cubin(const Geometry& g, DType t, Device device);
/// Requires stride 1.
bool input_gradient_by_cubin(const OpCall& call, const Geometry& g, const Tensor& y, const Tensor& weight,
                             const Tensor& bias, const Tensor& x);
/// True if a gemm of patches in memory computes the transpose of the weight's gradient: tiles of 64 columns, which f32
/// has, suit a y with few channels.
bool weight_is_made_across(const Geometry& g, const Tensor& x);
bool weight_gradient_by_cubin(const OpCall& call, const Geometry& g, const Tensor& x, const Tensor& y,
                              const Tensor& weight);

}  // namespace etna::convolution
