#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_EXT_bfloat16 : require
// Up to 32 rows of bf16 times a weight in a block format: lib/gemm_matrix.glsl. Not for f16 weights, which the Hopper
// variant reads in place: with this kernel, 32 sequences of a decoder took 1.8 times as long on an H100. Rows of
// experts come in tiles of 64, for which a chunk of weights is decoded once.
//
// requires: GL_KHR_cooperative_matrix
// requires: GL_EXT_bfloat16
// target: vulkan1.3
// variant: gemm_blocks_32_bf16 TILE_M=32 TILE_N=64
// variant: gemm_experts_bf16 TILE_M=64 TILE_N=32 EXPERTS

#define ELEMENT bfloat16_t
#define BLOCKS
#include "gemm_matrix.glsl"
