// The bf16 gemms of gemm16.cuh, by the layout of a and b: n is stored row by row, t column by column.
//
// kernel: cubin_gemm_bf16_nn
// kernel: cubin_gemm_bf16_nt
// kernel: cubin_gemm_bf16_tn
// kernel: cubin_gemm_bf16_nn_256
// kernel: cubin_gemm_bf16_nt_256
// kernel: cubin_gemm_bf16_tn_256
// kernel: cubin_gemm_bf16_nn_192
// kernel: cubin_gemm_bf16_nt_192
// kernel: cubin_gemm_bf16_tn_192
#include "gemm16.cuh"

ETNA_GEMM16(cubin_gemm_bf16_nn, false, false, true, false)
ETNA_GEMM16(cubin_gemm_bf16_nt, false, false, true, true)
ETNA_GEMM16(cubin_gemm_bf16_tn, false, false, false, false)
ETNA_GEMM16(cubin_gemm_bf16_nn_256, false, true, true, false)
ETNA_GEMM16(cubin_gemm_bf16_nt_256, false, true, true, true)
ETNA_GEMM16(cubin_gemm_bf16_tn_256, false, true, false, false)
ETNA_GEMM16(cubin_gemm_bf16_nn_192, false, false, true, false, 192)
ETNA_GEMM16(cubin_gemm_bf16_nt_192, false, false, true, true, 192)
ETNA_GEMM16(cubin_gemm_bf16_tn_192, false, false, false, false, 192)
