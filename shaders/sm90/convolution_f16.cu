// Convolutions of f16 by the copy engine's patches (patches.cuh).
//
// kernel: cubin_convolution_forward_f16
// kernel: cubin_convolution_forward_f16_256
// kernel: cubin_convolution_input_f16
// kernel: cubin_convolution_input_f16_256
// kernel: cubin_convolution_weight_f16
// kernel: cubin_convolution_weight_f16_256
#include "gemm16.cuh"
#include "patches.cuh"

ETNA_CONVOLUTION(cubin_convolution_forward_f16, kForward, 384, Gemm16, kRows, kStep, kBytesA, true, false, true, true)
ETNA_CONVOLUTION(cubin_convolution_forward_f16_256, kForward, 384, Gemm16, kRows, kStep, kBytesA, true, true, true, true)
ETNA_CONVOLUTION(cubin_convolution_input_f16, kInput, 384, Gemm16, kRows, kStep, kBytesA, true, false, true, false)
ETNA_CONVOLUTION(cubin_convolution_input_f16_256, kInput, 384, Gemm16, kRows, kStep, kBytesA, true, true, true, false)
ETNA_CONVOLUTION(cubin_convolution_weight_f16, kWeight, 384, Gemm16, kRows, kStep, kBytesA, true, false, false, false)
ETNA_CONVOLUTION(cubin_convolution_weight_f16_256, kWeight, 384, Gemm16, kRows, kStep, kBytesA, true, true, false, false)
