#version 460
#extension GL_GOOGLE_include_directive : require
// Attention and its gradients on matrix units, using only KHR_cooperative_matrix, which several vendors support. Scores
// go through shared memory for the softmax and come back as operands. The factor of a row comes back as a matrix that
// has it in every column. On an H200, bf16, head size 64, sequence length 1024 (4096): forward 65 (83), gradients 81
// (110) and 85 (103) TFLOP/s. NVIDIA's own extension (attention_coopmat2.comp) is two to three times as fast.
//
// requires: GL_KHR_cooperative_matrix
// requires: GL_EXT_bfloat16
// target: vulkan1.3
// variant: attention_coopmat_f16 FORWARD
// variant: attention_coopmat_bf16 FORWARD BFLOAT
// variant: attention_paged_coopmat_f16 FORWARD PAGED
// variant: attention_paged_coopmat_bf16 FORWARD PAGED BFLOAT
// variant: attention_paged_coopmat_q8 FORWARD PAGED BFLOAT Q8
// variant: attention_dq_coopmat_f16 DQ
// variant: attention_dq_coopmat_bf16 DQ BFLOAT
// variant: attention_dkv_coopmat_f16 DKV
// variant: attention_dkv_coopmat_bf16 DKV BFLOAT
#ifdef FORWARD
#include "attention_matrix_forward.glsl"
#else
#include "attention_matrix_backward.glsl"
#endif
