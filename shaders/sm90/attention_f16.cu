// Attention, of a paged cache too, and its gradients, f16.
// kernel: cubin_attention_f16_64
// kernel: cubin_attention_f16_64_causal
// kernel: cubin_attention_f16_96
// kernel: cubin_attention_f16_96_causal
// kernel: cubin_attention_f16_128
// kernel: cubin_attention_f16_128_causal
// kernel: cubin_attention_f16_192
// kernel: cubin_attention_f16_192_causal
// kernel: cubin_attention_f16_256
// kernel: cubin_attention_f16_256_causal
// kernel: cubin_attention_paged_f16_64
// kernel: cubin_attention_paged_f16_96
// kernel: cubin_attention_paged_f16_128
// kernel: cubin_attention_paged_f16_256
// kernel: cubin_attention_backward_f16_64
// kernel: cubin_attention_backward_f16_64_causal
// kernel: cubin_attention_backward_f16_128
// kernel: cubin_attention_backward_f16_128_causal
// kernel: cubin_attention_short_f16
// kernel: cubin_attention_short_f16_causal
// kernel: cubin_attention_rows_f16
// kernel: cubin_attention_sums_f16
#include "attention_kernels.cuh"

ETNA_ATTENTION_KERNELS(f16, true)
