#version 460
#extension GL_GOOGLE_include_directive : require
// Attention and its gradients on matrix units, with NV_cooperative_matrix2: row maxima, masks and the conversion of
// sums into operands stay in registers. Arithmetic-bound for long sequences, limited by latency: with 160 to 255
// registers per thread only eight subgroups fit a multiprocessor.
//
// Tried on an H200, bf16, causal, head size 64, 16384 rows of 2048 columns in sequences of 1024 (4096); a tile is
// subgroups x rows x columns; TFLOP/s. Forward:
//   4x16x64                                                                               155 (188)
//   8x16x128                                                                              154 (205)
//   8x16x64                                                                               150 (187)
//   4x16x32                                                                               138 (162)
//   4x32x64, which spills                                                                 128 (163)
//   scores computed one tile ahead, during the softmax of the previous tile               117 (141)
//   values of a tile loaded while its scores are computed, a barrier before their use     136 (161)
//   maximum updated only when weights exceed 1024, so that few tiles search for one       124 (151)
//   row sums by multiplying with ones                                                     115 (139)
// Gradients of queries: 4x32x32 229 (304), 4x32x64 211 (275), 8x16x64 198 (257); without rounding to nearest 236 (303).
// Gradients of keys and values: 4x32x64 211 (275), 8x16x64 202 (265), 4x16x32 194 (232).
//
// requires: GL_KHR_cooperative_matrix
// requires: GL_NV_cooperative_matrix2
// requires: GL_EXT_bfloat16
// target: vulkan1.3
// variant: attention_coopmat2_f16 FORWARD COOPMAT2
// variant: attention_coopmat2_bf16 FORWARD COOPMAT2 BFLOAT
// variant: attention_paged_coopmat2_f16 FORWARD PAGED COOPMAT2
// variant: attention_paged_coopmat2_bf16 FORWARD PAGED COOPMAT2 BFLOAT
// variant: attention_paged_coopmat2_q8 FORWARD PAGED COOPMAT2 BFLOAT Q8
// variant: attention_dq_coopmat2_f16 DQ COOPMAT2
// variant: attention_dq_coopmat2_bf16 DQ COOPMAT2 BFLOAT
// variant: attention_dkv_coopmat2_f16 DKV COOPMAT2
// variant: attention_dkv_coopmat2_bf16 DKV COOPMAT2 BFLOAT
#ifdef FORWARD
#include "attention_matrix_forward.glsl"
#else
#include "attention_matrix_backward.glsl"
#endif
