// Convolutions of bf16 by the copy engine's patches (patches.cuh).
//
// kernel: cubin_convolution_forward_bf16
// kernel: cubin_convolution_forward_bf16_256
// kernel: cubin_convolution_input_bf16
// kernel: cubin_convolution_input_bf16_256
// kernel: cubin_convolution_weight_bf16
// kernel: cubin_convolution_weight_bf16_256
#include "gemm16.cuh"
#include "patches.cuh"

ETNA_CONVOLUTION(cubin_convolution_forward_bf16, kForward, 384, Gemm16, kRows, kStep, kBytesA, false, false, true, true)
ETNA_CONVOLUTION(cubin_convolution_forward_bf16_256, kForward, 384, Gemm16, kRows, kStep, kBytesA, false, true, true, true)
ETNA_CONVOLUTION(cubin_convolution_input_bf16, kInput, 384, Gemm16, kRows, kStep, kBytesA, false, false, true, false)
ETNA_CONVOLUTION(cubin_convolution_input_bf16_256, kInput, 384, Gemm16, kRows, kStep, kBytesA, false, true, true, false)
ETNA_CONVOLUTION(cubin_convolution_weight_bf16, kWeight, 384, Gemm16, kRows, kStep, kBytesA, false, false, false, false)
ETNA_CONVOLUTION(cubin_convolution_weight_bf16_256, kWeight, 384, Gemm16, kRows, kStep, kBytesA, false, true, false, false)
