// Attention with masks, and its gradients, f16.
// kernel: cubin_attention_masked_f16_64
// kernel: cubin_attention_masked_f16_128
// kernel: cubin_attention_masked_f16_256
// kernel: cubin_attention_backward_masked_f16_64
// kernel: cubin_attention_backward_masked_f16_128
#include "attention_kernels.cuh"

ETNA_ATTENTION_MASKED_KERNELS(f16, true)
