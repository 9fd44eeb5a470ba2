#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_cooperative_matrix : require
// Matrix multiplication of f16: lib/gemm_matrix.glsl.
//
// requires: GL_KHR_cooperative_matrix
// target: vulkan1.3
// variant: gemm_coopmat_128x128_f16 TILE_M=128 TILE_N=128
// variant: gemm_coopmat_128x64_f16 TILE_M=128 TILE_N=64
// variant: gemm_coopmat_64x64_f16 TILE_M=64 TILE_N=64
// variant: gemm_coopmat_experts_f16 TILE_M=64 TILE_N=64 EXPERTS
// variant: gemm_coopmat_expert_rows_f16 TILE_M=64 TILE_N=64 EXPERT_ROWS

#define ELEMENT float16_t
#include "gemm_matrix.glsl"
