// Convolutions of f32 by the copy engine's patches (patches.cuh).
//
// kernel: cubin_convolution_forward_f32
// kernel: cubin_convolution_input_f32
// kernel: cubin_convolution_weight_f32
#include "gemm32.cuh"
#include "patches.cuh"

ETNA_CONVOLUTION(cubin_convolution_forward_f32, kForward, 512, Gemm32, kTile, kStep, kBytes, true, true)
ETNA_CONVOLUTION(cubin_convolution_input_f32, kInput, 512, Gemm32, kTile, kStep, kBytes, true, false)
ETNA_CONVOLUTION(cubin_convolution_weight_f32, kWeight, 512, Gemm32, kTile, kStep, kBytes, false, false)
