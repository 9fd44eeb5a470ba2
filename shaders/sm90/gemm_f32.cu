// The f32 gemms of gemm32.cuh, by the layout of a and b: n is stored row by row, t column by column.
//
// kernel: cubin_gemm_f32_nn
// kernel: cubin_gemm_f32_nt
// kernel: cubin_gemm_f32_tn
#include "gemm32.cuh"

ETNA_GEMM32(cubin_gemm_f32_nn, true, false)
ETNA_GEMM32(cubin_gemm_f32_nt, true, true)
ETNA_GEMM32(cubin_gemm_f32_tn, false, false)
