// Attention, of a paged cache too, and its gradients, bf16.
// kernel: cubin_attention_bf16_64
// kernel: cubin_attention_bf16_64_causal
// kernel: cubin_attention_bf16_96
// kernel: cubin_attention_bf16_96_causal
// kernel: cubin_attention_bf16_128
// kernel: cubin_attention_bf16_128_causal
// kernel: cubin_attention_bf16_192
// kernel: cubin_attention_bf16_192_causal
// kernel: cubin_attention_bf16_256
// kernel: cubin_attention_bf16_256_causal
// kernel: cubin_attention_paged_bf16_64
// kernel: cubin_attention_paged_bf16_96
// kernel: cubin_attention_paged_bf16_128
// kernel: cubin_attention_paged_bf16_256
// kernel: cubin_attention_backward_bf16_64
// kernel: cubin_attention_backward_bf16_64_causal
// kernel: cubin_attention_backward_bf16_128
// kernel: cubin_attention_backward_bf16_128_causal
// kernel: cubin_attention_short_bf16
// kernel: cubin_attention_short_bf16_causal
// kernel: cubin_attention_rows_bf16
// kernel: cubin_attention_sums_bf16
#include "attention_kernels.cuh"

ETNA_ATTENTION_KERNELS(bf16, false)
