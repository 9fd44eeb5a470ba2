// The skinny gemms of skinny_gemm.cuh, by the format of the weights.
//
// kernel: cubin_skinny_f16
// kernel: cubin_skinny_bf16
// kernel: cubin_skinny_q4_k
// kernel: cubin_skinny_q6_k
// kernel: cubin_skinny_q8_0
#include "skinny_gemm.cuh"

ETNA_SKINNY_GEMM(cubin_skinny_f16, HalfRow<true>)
ETNA_SKINNY_GEMM(cubin_skinny_bf16, HalfRow<false>)
ETNA_SKINNY_GEMM(cubin_skinny_q4_k, Q4KRow)
ETNA_SKINNY_GEMM(cubin_skinny_q6_k, Q6KRow)
ETNA_SKINNY_GEMM(cubin_skinny_q8_0, Q8Row)
