#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_EXT_bfloat16 : require
// Matrix multiplication of bf16: lib/gemm_matrix.glsl.
//
// requires: GL_KHR_cooperative_matrix
// requires: GL_EXT_bfloat16
// target: vulkan1.3
// variant: gemm_coopmat_128x128_bf16 TILE_M=128 TILE_N=128
// variant: gemm_coopmat_128x64_bf16 TILE_M=128 TILE_N=64
// variant: gemm_coopmat_64x64_bf16 TILE_M=64 TILE_N=64
// variant: gemm_coopmat_experts_bf16 TILE_M=64 TILE_N=64 EXPERTS
// variant: gemm_coopmat_expert_rows_bf16 TILE_M=64 TILE_N=64 EXPERT_ROWS

#define ELEMENT bfloat16_t
#include "gemm_matrix.glsl"
