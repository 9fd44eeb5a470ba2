// The products of experts of expert_gemm.cuh, by the format of the weights.
//
// kernel: cubin_experts_bf16
// kernel: cubin_experts_q4_k
// kernel: cubin_experts_q6_k
// kernel: cubin_experts_q8_0
#include "expert_gemm.cuh"

ETNA_EXPERT_GEMM(cubin_experts_bf16, hopper::HalfRow<false>, 3, 4)
ETNA_EXPERT_GEMM(cubin_experts_q4_k, hopper::Q4KRow, 3, 4)
ETNA_EXPERT_GEMM(cubin_experts_q6_k, hopper::Q6KRow, 2, 4)
ETNA_EXPERT_GEMM(cubin_experts_q8_0, hopper::Q8Row, 2, 3)
