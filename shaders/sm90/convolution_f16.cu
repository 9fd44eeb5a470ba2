// Convolutions of f16 by the copy engine's patches (patches.cuh).
//
// kernel: cubin_convolution_forward_f16
// kernel: cubin_convolution_forward_f16_256
// kernel: cubin_convolution_input_f16
// kernel: cubin_convolution_input_f16_256
// kernel: cubin_convolution_weight_f16
// kernel: cubin_convolution_weight_f16_256
// kernel: cubin_convolution_forward_f16_64
// kernel: cubin_convolution_input_f16_64
// kernel: cubin_convolution_forward_f16_64_resident
// kernel: cubin_convolution_input_f16_64_resident
// kernel: cubin_convolution_weight_across_f16_64
#include "gemm16.cuh"
#include "patches.cuh"

ETNA_CONVOLUTION(cubin_convolution_forward_f16, kForward, Gemm16, true, false, true, true)
ETNA_CONVOLUTION(cubin_convolution_forward_f16_256, kForward, Gemm16, true, true, true, true)
ETNA_CONVOLUTION(cubin_convolution_input_f16, kInput, Gemm16, true, false, true, false)
ETNA_CONVOLUTION(cubin_convolution_input_f16_256, kInput, Gemm16, true, true, true, false)
ETNA_CONVOLUTION(cubin_convolution_weight_f16, kWeight, Gemm16, true, false, false, false)
ETNA_CONVOLUTION(cubin_convolution_weight_f16_256, kWeight, Gemm16, true, true, false, false)
ETNA_CONVOLUTION(cubin_convolution_forward_f16_64, kForward, Gemm16, true, true, true, true, 64)
ETNA_CONVOLUTION(cubin_convolution_input_f16_64, kInput, Gemm16, true, true, true, false, 64)
ETNA_CONVOLUTION(cubin_convolution_forward_f16_64_resident, kForward, Gemm16, true, true, true, true, 64, 9)
ETNA_CONVOLUTION(cubin_convolution_input_f16_64_resident, kInput, Gemm16, true, true, true, false, 64, 9)
ETNA_CONVOLUTION(cubin_convolution_weight_across_f16_64, kWeightAcross, Gemm16, true, true, false, false, 64)
