// Attention with windows, soft caps and packed documents, and its gradients, f16.
// kernel: cubin_attention_general_f16_64
// kernel: cubin_attention_general_f16_96
// kernel: cubin_attention_general_f16_128
// kernel: cubin_attention_general_f16_192
// kernel: cubin_attention_general_f16_256
// kernel: cubin_attention_backward_general_f16_64
// kernel: cubin_attention_backward_general_f16_128
// kernel: cubin_attention_rows_general_f16
#include "attention_kernels.cuh"

ETNA_ATTENTION_GENERAL_KERNELS(f16, true)
