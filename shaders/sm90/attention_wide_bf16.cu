// Gradients of attention of heads beyond 128, bf16.
// kernel: cubin_attention_backward_bf16_192
// kernel: cubin_attention_backward_bf16_192_causal
// kernel: cubin_attention_backward_bf16_256
// kernel: cubin_attention_backward_bf16_256_causal
// kernel: cubin_attention_backward_general_bf16_192
// kernel: cubin_attention_backward_general_bf16_256
// kernel: cubin_attention_backward_masked_bf16_256
#include "attention_wide_kernels.cuh"

ETNA_ATTENTION_WIDE_KERNELS(bf16, false)
