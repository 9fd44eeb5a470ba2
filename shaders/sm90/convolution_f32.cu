// Convolutions of f32 by the copy engine's patches (patches.cuh).
//
// kernel: cubin_convolution_forward_f32
// kernel: cubin_convolution_input_f32
// kernel: cubin_convolution_weight_f32
// kernel: cubin_convolution_forward_f32_64
// kernel: cubin_convolution_input_f32_64
// kernel: cubin_convolution_weight_across_f32
// kernel: cubin_convolution_weight_across_f32_64
#include "gemm32.cuh"
#include "patches.cuh"

ETNA_CONVOLUTION(cubin_convolution_forward_f32, kForward, Gemm32, true, true)
ETNA_CONVOLUTION(cubin_convolution_input_f32, kInput, Gemm32, true, false)
ETNA_CONVOLUTION(cubin_convolution_weight_f32, kWeight, Gemm32, false, false)
ETNA_CONVOLUTION(cubin_convolution_forward_f32_64, kForward, Gemm32, true, true, 64)
ETNA_CONVOLUTION(cubin_convolution_input_f32_64, kInput, Gemm32, true, false, 64)
ETNA_CONVOLUTION(cubin_convolution_weight_across_f32, kWeightAcross, Gemm32, false, false)
ETNA_CONVOLUTION(cubin_convolution_weight_across_f32_64, kWeightAcross, Gemm32, false, false, 64)
