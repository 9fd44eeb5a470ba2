// Attention with masks, and its gradients, bf16.
// kernel: cubin_attention_masked_bf16_64
// kernel: cubin_attention_masked_bf16_128
// kernel: cubin_attention_masked_bf16_256
// kernel: cubin_attention_backward_masked_bf16_64
// kernel: cubin_attention_backward_masked_bf16_128
// kernel: cubin_attention_mask
#include "attention_kernels.cuh"

ETNA_ATTENTION_MASKED_KERNELS(bf16, false)

extern "C" __global__ void __launch_bounds__(hopper::kMaskThreads)
    cubin_attention_mask(const __grid_constant__ hopper::AttentionMaskParameters p) {
  extern __shared__ __align__(1024) char memory[];
  hopper::attention_mask(p, memory);
}
