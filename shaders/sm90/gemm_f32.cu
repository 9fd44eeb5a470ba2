// The f32 gemms of gemm32.cuh, by the layout of a and b: n is stored row by row, t column by column.
//
// kernel: cubin_gemm_f32_nn
// kernel: cubin_gemm_f32_nt
// kernel: cubin_gemm_f32_tn
// kernel: cubin_gemm_f32_nn_64
// kernel: cubin_gemm_f32_nt_64
// kernel: cubin_gemm_f32_tn_64
#include "gemm32.cuh"

ETNA_GEMM32(cubin_gemm_f32_nn, true, false)
ETNA_GEMM32(cubin_gemm_f32_nt, true, true)
ETNA_GEMM32(cubin_gemm_f32_tn, false, false)
ETNA_GEMM32(cubin_gemm_f32_nn_64, true, false, 64)
ETNA_GEMM32(cubin_gemm_f32_nt_64, true, true, 64)
ETNA_GEMM32(cubin_gemm_f32_tn_64, false, false, 64)
