// Attention and its gradients, f32.
// kernel: cubin_attention_f32_64
// kernel: cubin_attention_f32_64_causal
// kernel: cubin_attention_f32_128
// kernel: cubin_attention_f32_128_causal
// kernel: cubin_attention_backward_f32_64
// kernel: cubin_attention_backward_f32_64_causal
// kernel: cubin_attention_backward_f32_128
// kernel: cubin_attention_backward_f32_128_causal
// kernel: cubin_attention_parts_f32
// kernel: cubin_attention_sums_f32
#include "attention32_backward.cuh"

#define ETNA_ATTENTION_KERNEL(name, parameters, threads, ...)                                           \
  extern "C" __global__ void __launch_bounds__(threads, 1) name(const __grid_constant__ parameters p) { \
    extern __shared__ __align__(1024) char memory[];                                                    \
    __VA_ARGS__::run(p, memory);                                                                        \
  }
#define ETNA_ATTENTION_FORWARD(name, ...) ETNA_ATTENTION_KERNEL(name, hopper::Attention32Parameters, 384, __VA_ARGS__)

ETNA_ATTENTION_FORWARD(cubin_attention_f32_64, hopper::AttentionForward32<false, 64>)
ETNA_ATTENTION_FORWARD(cubin_attention_f32_64_causal, hopper::AttentionForward32<true, 64>)
ETNA_ATTENTION_FORWARD(cubin_attention_f32_128, hopper::AttentionForward32<false, 128>)
ETNA_ATTENTION_FORWARD(cubin_attention_f32_128_causal, hopper::AttentionForward32<true, 128>)

#define ETNA_ATTENTION_BACKWARD(name, ...) \
  ETNA_ATTENTION_KERNEL(name, hopper::AttentionGradient32Parameters, 384, __VA_ARGS__)

ETNA_ATTENTION_BACKWARD(cubin_attention_backward_f32_64, hopper::AttentionBackward32<false, 64>)
ETNA_ATTENTION_BACKWARD(cubin_attention_backward_f32_64_causal, hopper::AttentionBackward32<true, 64>)
ETNA_ATTENTION_BACKWARD(cubin_attention_backward_f32_128, hopper::AttentionBackward32<false, 128>)
ETNA_ATTENTION_BACKWARD(cubin_attention_backward_f32_128_causal, hopper::AttentionBackward32<true, 128>)

extern "C" __global__ void __launch_bounds__(256)
    cubin_attention_parts_f32(const __grid_constant__ hopper::AttentionPartsParameters p) {
  hopper::attention_parts(p);
}
extern "C" __global__ void __launch_bounds__(128)
    cubin_attention_sums_f32(const __grid_constant__ hopper::AttentionSum32Parameters p) {
  hopper::attention_sums(p);
}
