#pragma once
// The kernels of attention for one dtype; tensor/ops/attention/cubin.cpp has the same sizes.
#include "attention_short.cuh"

#define ETNA_ATTENTION_KERNEL(name, kernel, parameters)                                                          \
  extern "C" __global__ void __launch_bounds__(kernel::kThreads, 1) name(const __grid_constant__ parameters p) { \
    extern __shared__ __align__(1024) char memory[];                                                             \
    kernel::run(p, memory);                                                                                      \
  }

/// Head sizes up to SIZE, with and without a triangle.
#define ETNA_ATTENTION_FORWARD(dtype, F16, SIZE, GROUPS, KEYS)                                                \
  namespace hopper {                                                                                          \
  using Forward##SIZE = AttentionForward<F16, false, SIZE, SIZE, GROUPS, KEYS, 2>;                            \
  using ForwardCausal##SIZE = AttentionForward<F16, true, SIZE, SIZE, GROUPS, KEYS, 2>;                       \
  }                                                                                                           \
  ETNA_ATTENTION_KERNEL(cubin_attention_##dtype##_##SIZE, hopper::Forward##SIZE, hopper::AttentionParameters) \
  ETNA_ATTENTION_KERNEL(cubin_attention_##dtype##_##SIZE##_causal, hopper::ForwardCausal##SIZE,               \
                        hopper::AttentionParameters)

/// Heads of 192 and values of 128, as latent attention has (DeepSeek).
#define ETNA_ATTENTION_LATENT(dtype, F16)                                                               \
  namespace hopper {                                                                                    \
  using ForwardLatent = AttentionForward<F16, false, 192, 128, 2, 128, 2>;                              \
  using ForwardLatentCausal = AttentionForward<F16, true, 192, 128, 2, 128, 2>;                         \
  }                                                                                                     \
  ETNA_ATTENTION_KERNEL(cubin_attention_##dtype##_192, hopper::ForwardLatent,                           \
                        hopper::AttentionParameters)                                                    \
  ETNA_ATTENTION_KERNEL(cubin_attention_##dtype##_192_causal, hopper::ForwardLatentCausal,              \
                        hopper::AttentionParameters)

#define ETNA_ATTENTION_LATENT_GENERAL(dtype, F16)                                                              \
  namespace hopper {                                                                                           \
  using GeneralLatent = AttentionForward<F16, true, 192, 128, 2, 128, 2, GeneralAttentionParameters>;          \
  }                                                                                                            \
  ETNA_ATTENTION_KERNEL(cubin_attention_general_##dtype##_192, hopper::GeneralLatent,                          \
                        hopper::GeneralAttentionParameters)

#define ETNA_ATTENTION_PAGED(dtype, F16, SIZE, GROUPS, KEYS)                                              \
  namespace hopper {                                                                                      \
  using Paged##SIZE = AttentionForward<F16, true, SIZE, SIZE, GROUPS, KEYS, 2, PagedAttentionParameters>; \
  }                                                                                                       \
  ETNA_ATTENTION_KERNEL(cubin_attention_paged_##dtype##_##SIZE, hopper::Paged##SIZE, hopper::PagedAttentionParameters)

#define ETNA_ATTENTION_BACKWARD(dtype, F16, SIZE, QUERIES)                                                \
  namespace hopper {                                                                                      \
  using Backward##SIZE = AttentionBackward<F16, false, SIZE, QUERIES>;                                    \
  using BackwardCausal##SIZE = AttentionBackward<F16, true, SIZE, QUERIES>;                               \
  }                                                                                                       \
  ETNA_ATTENTION_KERNEL(cubin_attention_backward_##dtype##_##SIZE, hopper::Backward##SIZE,                \
                        hopper::AttentionGradientParameters)                                              \
  ETNA_ATTENTION_KERNEL(cubin_attention_backward_##dtype##_##SIZE##_causal, hopper::BackwardCausal##SIZE, \
                        hopper::AttentionGradientParameters)

#define ETNA_ATTENTION_SHORT(dtype, F16)                                                         \
  namespace hopper {                                                                             \
  using ShortBackward = AttentionShortBackward<F16, false>;                                      \
  using ShortBackwardCausal = AttentionShortBackward<F16, true>;                                 \
  }                                                                                              \
  ETNA_ATTENTION_KERNEL(cubin_attention_short_##dtype, hopper::ShortBackward,                    \
                        hopper::AttentionShortParameters)                                        \
  ETNA_ATTENTION_KERNEL(cubin_attention_short_##dtype##_causal, hopper::ShortBackwardCausal,     \
                        hopper::AttentionShortParameters)

/// With soft caps; windows and documents are parameters, and so is the triangle.
#define ETNA_ATTENTION_GENERAL(dtype, F16, SIZE, GROUPS, KEYS)                                                \
  namespace hopper {                                                                                          \
  using General##SIZE = AttentionForward<F16, true, SIZE, SIZE, GROUPS, KEYS, 2, GeneralAttentionParameters>; \
  }                                                                                                           \
  ETNA_ATTENTION_KERNEL(cubin_attention_general_##dtype##_##SIZE, hopper::General##SIZE,                      \
                        hopper::GeneralAttentionParameters)

#define ETNA_ATTENTION_BACKWARD_GENERAL(dtype, F16, SIZE, QUERIES)                                        \
  namespace hopper {                                                                                      \
  using BackwardGeneral##SIZE = AttentionBackward<F16, true, SIZE, QUERIES, GeneralGradientParameters>;   \
  }                                                                                                       \
  ETNA_ATTENTION_KERNEL(cubin_attention_backward_general_##dtype##_##SIZE, hopper::BackwardGeneral##SIZE, \
                        hopper::GeneralGradientParameters)

/// With a mask and soft caps. 128 columns take heads of up to 96, too, which are rare under masks.
#define ETNA_ATTENTION_MASKED(dtype, F16, SIZE, GROUPS, KEYS)                                               \
  namespace hopper {                                                                                        \
  using Masked##SIZE = AttentionForward<F16, true, SIZE, SIZE, GROUPS, KEYS, 2, MaskedAttentionParameters>; \
  }                                                                                                         \
  ETNA_ATTENTION_KERNEL(cubin_attention_masked_##dtype##_##SIZE, hopper::Masked##SIZE,                      \
                        hopper::MaskedAttentionParameters)

#define ETNA_ATTENTION_BACKWARD_MASKED(dtype, F16, SIZE, QUERIES)                                       \
  namespace hopper {                                                                                    \
  using BackwardMasked##SIZE = AttentionBackward<F16, true, SIZE, QUERIES, MaskedGradientParameters>;   \
  }                                                                                                     \
  ETNA_ATTENTION_KERNEL(cubin_attention_backward_masked_##dtype##_##SIZE, hopper::BackwardMasked##SIZE, \
                        hopper::MaskedGradientParameters)

#define ETNA_ATTENTION_MASKED_KERNELS(dtype, F16)     \
  ETNA_ATTENTION_MASKED(dtype, F16, 64, 3, 128)       \
  ETNA_ATTENTION_MASKED(dtype, F16, 128, 2, 128)      \
  ETNA_ATTENTION_MASKED(dtype, F16, 256, 2, 64)       \
  ETNA_ATTENTION_BACKWARD_MASKED(dtype, F16, 64, 128) \
  ETNA_ATTENTION_BACKWARD_MASKED(dtype, F16, 128, 64)

#define ETNA_ATTENTION_GENERAL_KERNELS(dtype, F16)                                                     \
  ETNA_ATTENTION_GENERAL(dtype, F16, 64, 3, 128)                                                       \
  ETNA_ATTENTION_GENERAL(dtype, F16, 96, 2, 128)                                                       \
  ETNA_ATTENTION_GENERAL(dtype, F16, 128, 2, 128)                                                      \
  ETNA_ATTENTION_LATENT_GENERAL(dtype, F16)                                                            \
  ETNA_ATTENTION_GENERAL(dtype, F16, 256, 2, 64)                                                       \
  ETNA_ATTENTION_BACKWARD_GENERAL(dtype, F16, 64, 128)                                                 \
  ETNA_ATTENTION_BACKWARD_GENERAL(dtype, F16, 128, 64)                                                 \
  extern "C" __global__ void __launch_bounds__(256)                                                    \
      cubin_attention_rows_general_##dtype(const __grid_constant__ hopper::AttentionRowParameters p) { \
    hopper::attention_rows<F16, true>(p);                                                              \
  }

#define ETNA_ATTENTION_KERNELS(dtype, F16)                                                     \
  ETNA_ATTENTION_FORWARD(dtype, F16, 64, 3, 128)                                               \
  ETNA_ATTENTION_FORWARD(dtype, F16, 96, 2, 128)                                               \
  ETNA_ATTENTION_FORWARD(dtype, F16, 128, 2, 128)                                              \
  ETNA_ATTENTION_LATENT(dtype, F16)                                                            \
  ETNA_ATTENTION_FORWARD(dtype, F16, 256, 2, 64)                                               \
  ETNA_ATTENTION_PAGED(dtype, F16, 64, 3, 128)                                                 \
  ETNA_ATTENTION_PAGED(dtype, F16, 96, 2, 128)                                                 \
  ETNA_ATTENTION_PAGED(dtype, F16, 128, 2, 128)                                                \
  ETNA_ATTENTION_PAGED(dtype, F16, 256, 2, 64)                                                 \
  ETNA_ATTENTION_BACKWARD(dtype, F16, 64, 128)                                                 \
  ETNA_ATTENTION_BACKWARD(dtype, F16, 128, 64)                                                 \
  ETNA_ATTENTION_SHORT(dtype, F16)                                                             \
  extern "C" __global__ void __launch_bounds__(256)                                            \
      cubin_attention_rows_##dtype(const __grid_constant__ hopper::AttentionRowParameters p) { \
    hopper::attention_rows<F16>(p);                                                            \
  }                                                                                            \
  extern "C" __global__ void __launch_bounds__(128)                                            \
      cubin_attention_sums_##dtype(const __grid_constant__ hopper::AttentionSumParameters p) { \
    hopper::attention_sums<F16>(p);                                                            \
  }
