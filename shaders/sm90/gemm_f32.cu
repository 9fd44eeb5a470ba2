// The f32 products of gemm32.cuh, by how a and b lie in memory: n is a matrix stored row by row, t one stored column by
// column.
//
// kernel: cubin_gemm_f32_nn
// kernel: cubin_gemm_f32_nt
// kernel: cubin_gemm_f32_tn
#include "gemm32.cuh"

ETNA_GEMM32(cubin_gemm_f32_nn, true, false)
ETNA_GEMM32(cubin_gemm_f32_nt, true, true)
ETNA_GEMM32(cubin_gemm_f32_tn, false, false)
