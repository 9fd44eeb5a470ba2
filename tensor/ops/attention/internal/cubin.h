#pragma once

#include <etna/tensor/ops/attention/internal/attention.h>

/// Attention with Hopper's warpgroup instructions: the kernels of shaders/sm90/attention_kernels.cuh, f16 and bf16,
/// without a mask.
namespace etna::attention {

/// @param y the result as [B, H, T, D] @param logsumexp dense [B, H, T]
/// @return false if the device or the build has no such kernel, or it does not take these inputs
bool launch_cubin(const OpCall& call, const Inputs& in, const Tensor& y, const Tensor& logsumexp);

/// @param dq, dk, dv as [B, H, T, D] or [B, G, S, D]; dk and dv of the same strides @return as above
bool launch_cubin_gradients(const OpCall& call, const Inputs& in, const Kept& kept, const Tensor& dq, const Tensor& dk,
                            const Tensor& dv);

/// Whether ETNA_ATTENTION asks for such kernels, and the device and the build have them for heads of this size.
bool has_cubin(Device device, DType t, std::int64_t size);

}  // namespace etna::attention
