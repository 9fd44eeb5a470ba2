// Gradients of attention of heads beyond 128, f16.
// kernel: cubin_attention_backward_f16_192
// kernel: cubin_attention_backward_f16_192_causal
// kernel: cubin_attention_backward_f16_256
// kernel: cubin_attention_backward_f16_256_causal
// kernel: cubin_attention_backward_general_f16_192
// kernel: cubin_attention_backward_general_f16_256
// kernel: cubin_attention_backward_masked_f16_256
#include "attention_wide_kernels.cuh"

ETNA_ATTENTION_WIDE_KERNELS(f16, true)
