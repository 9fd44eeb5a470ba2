#pragma once
// The kernels of gradients of heads beyond 128 for one dtype; tensor/ops/attention/cubin.cpp has the same sizes.
#include "attention_wide_backward.cuh"

#define ETNA_ATTENTION_WIDE_KERNEL(name, F16, CAUSAL, SIZE, VALUES, parameters)                             \
  extern "C" __global__ void __launch_bounds__(384, 1) name(const __grid_constant__ hopper::parameters p) { \
    extern __shared__ __align__(1024) char memory[];                                                        \
    hopper::AttentionWideBackward<F16, CAUSAL, SIZE, VALUES, hopper::parameters>::run(p, memory);           \
  }

#define ETNA_ATTENTION_WIDE(dtype, F16, SIZE, VALUES)                                                     \
  ETNA_ATTENTION_WIDE_KERNEL(cubin_attention_backward_##dtype##_##SIZE, F16, false, SIZE, VALUES,         \
                             AttentionGradientParameters)                                                 \
  ETNA_ATTENTION_WIDE_KERNEL(cubin_attention_backward_##dtype##_##SIZE##_causal, F16, true, SIZE, VALUES, \
                             AttentionGradientParameters)                                                 \
  ETNA_ATTENTION_WIDE_KERNEL(cubin_attention_backward_general_##dtype##_##SIZE, F16, true, SIZE, VALUES,  \
                             GeneralGradientParameters)

#define ETNA_ATTENTION_WIDE_KERNELS(dtype, F16)                                                        \
  ETNA_ATTENTION_WIDE(dtype, F16, 192, 128)                                                            \
  ETNA_ATTENTION_WIDE(dtype, F16, 256, 256)                                                            \
  ETNA_ATTENTION_WIDE_KERNEL(cubin_attention_backward_masked_##dtype##_256, F16, true, 256, 256,       \
                             MaskedGradientParameters)
