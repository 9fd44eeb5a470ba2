// Convolutions of bf16 by the copy engine's patches (patches.cuh).
//
// kernel: cubin_convolution_forward_bf16
// kernel: cubin_convolution_forward_bf16_256
// kernel: cubin_convolution_input_bf16
// kernel: cubin_convolution_input_bf16_256
// kernel: cubin_convolution_weight_bf16
// kernel: cubin_convolution_weight_bf16_256
// kernel: cubin_convolution_forward_bf16_64
// kernel: cubin_convolution_input_bf16_64
// kernel: cubin_convolution_forward_bf16_64_resident
// kernel: cubin_convolution_input_bf16_64_resident
// kernel: cubin_convolution_weight_across_bf16_64
#include "gemm16.cuh"
#include "patches.cuh"

ETNA_CONVOLUTION(cubin_convolution_forward_bf16, kForward, Gemm16, false, false, true, true)
ETNA_CONVOLUTION(cubin_convolution_forward_bf16_256, kForward, Gemm16, false, true, true, true)
ETNA_CONVOLUTION(cubin_convolution_input_bf16, kInput, Gemm16, false, false, true, false)
ETNA_CONVOLUTION(cubin_convolution_input_bf16_256, kInput, Gemm16, false, true, true, false)
ETNA_CONVOLUTION(cubin_convolution_weight_bf16, kWeight, Gemm16, false, false, false, false)
ETNA_CONVOLUTION(cubin_convolution_weight_bf16_256, kWeight, Gemm16, false, true, false, false)
ETNA_CONVOLUTION(cubin_convolution_forward_bf16_64, kForward, Gemm16, false, true, true, true, 64)
ETNA_CONVOLUTION(cubin_convolution_input_bf16_64, kInput, Gemm16, false, true, true, false, 64)
ETNA_CONVOLUTION(cubin_convolution_forward_bf16_64_resident, kForward, Gemm16, false, true, true, true, 64, 9)
ETNA_CONVOLUTION(cubin_convolution_input_bf16_64_resident, kInput, Gemm16, false, true, true, false, 64, 9)
ETNA_CONVOLUTION(cubin_convolution_weight_across_bf16_64, kWeightAcross, Gemm16, false, true, false, false, 64)
