// Attention with windows, soft caps and packed documents, and its gradients, bf16.
// kernel: cubin_attention_general_bf16_64
// kernel: cubin_attention_general_bf16_96
// kernel: cubin_attention_general_bf16_128
// kernel: cubin_attention_general_bf16_192
// kernel: cubin_attention_general_bf16_256
// kernel: cubin_attention_backward_general_bf16_64
// kernel: cubin_attention_backward_general_bf16_128
// kernel: cubin_attention_rows_general_bf16
#include "attention_kernels.cuh"

ETNA_ATTENTION_GENERAL_KERNELS(bf16, false)
