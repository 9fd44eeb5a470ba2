// The f16 gemms of gemm16.cuh, by the layout of a and b: n is stored row by row, t column by column.
//
// kernel: cubin_gemm_f16_nn
// kernel: cubin_gemm_f16_nt
// kernel: cubin_gemm_f16_tn
// kernel: cubin_gemm_f16_nn_256
// kernel: cubin_gemm_f16_nt_256
// kernel: cubin_gemm_f16_tn_256
// kernel: cubin_gemm_f16_nn_192
// kernel: cubin_gemm_f16_nt_192
// kernel: cubin_gemm_f16_tn_192
#include "gemm16.cuh"

ETNA_GEMM16(cubin_gemm_f16_nn, true, false, true, false)
ETNA_GEMM16(cubin_gemm_f16_nt, true, false, true, true)
ETNA_GEMM16(cubin_gemm_f16_tn, true, false, false, false)
ETNA_GEMM16(cubin_gemm_f16_nn_256, true, true, true, false)
ETNA_GEMM16(cubin_gemm_f16_nt_256, true, true, true, true)
ETNA_GEMM16(cubin_gemm_f16_tn_256, true, true, false, false)
ETNA_GEMM16(cubin_gemm_f16_nn_192, true, false, true, false, 192)
ETNA_GEMM16(cubin_gemm_f16_nt_192, true, false, true, true, 192)
ETNA_GEMM16(cubin_gemm_f16_tn_192, true, false, false, false, 192)
