#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_NV_cooperative_matrix2 : require
#extension GL_KHR_memory_scope_semantics : require
// Matrix product y = a · b with an epilogue by NV_cooperative_matrix2: f16 or bf16 operands, f32 sums, over a batch. A matrix
// belongs to a whole workgroup and is loaded from memory through a description of the tensor it is cut from, so that staging,
// edges and transposing are the compiler's; what lies beyond an edge is 0.
//
// On an H200 it loses to lib/gemm_matrix.glsl (docs/gemm.md) and to the Hopper tier, so products come here where ETNA_GEMM or a
// table written by `etna tune` on another device says so.
//
// requires: GL_KHR_cooperative_matrix
// requires: GL_NV_cooperative_matrix2
// requires: GL_EXT_bfloat16
// target: vulkan1.3
// variant: gemm_coopmat2_128x128_f16 TILE_M=128 TILE_N=128
// variant: gemm_coopmat2_128x64_f16 TILE_M=128 TILE_N=64
// variant: gemm_coopmat2_64x64_f16 TILE_M=64 TILE_N=64
// variant: gemm_coopmat2_128x128_bf16 TILE_M=128 TILE_N=128 BFLOAT
// variant: gemm_coopmat2_128x64_bf16 TILE_M=128 TILE_N=64 BFLOAT
// variant: gemm_coopmat2_64x64_bf16 TILE_M=64 TILE_N=64 BFLOAT

#ifdef BFLOAT
#extension GL_EXT_bfloat16 : require
#define ELEMENT bfloat16_t
#else
#define ELEMENT float16_t
#endif

#include "finish.glsl"

const uint STEP = 64;

layout(local_size_x_id = 0) in;
// As in lib/gemm_matrix.glsl.
layout(constant_id = 0) const uint THREADS = 128;
layout(constant_id = 1) const uint A_K_NEIGHBOURS = 1;
layout(constant_id = 2) const uint B_K_NEIGHBOURS = 0;
layout(constant_id = 3) const uint A_WIDTH = 1;
layout(constant_id = 4) const uint B_WIDTH = 1;
layout(constant_id = 5) const uint M_FULL = 0;
layout(constant_id = 6) const uint N_FULL = 0;
layout(constant_id = 7) const uint K_FULL = 0;
layout(constant_id = 8) const uint Y_WIDTH = 1;
layout(constant_id = 9) const uint FINISH = 0;
layout(constant_id = 10) const uint Y_DTYPE = 1;
layout(constant_id = 11) const uint BIAS_DTYPE = 1;
layout(constant_id = 12) const uint BESIDE_DTYPE = 1;
layout(constant_id = 13) const uint RESIDUAL_DTYPE = 1;

layout(push_constant, scalar) uniform Push {
  uvec2 a, b;
  FINISH_PUSH
  uint m, n, k;
  uint lda, ldb;
  uint a_strides[2], b_strides[2];
  uint inner, batch;
  uint k_per_split;
} p;

#include "finish_row.glsl"

layout(buffer_reference, scalar, buffer_reference_align = 2) buffer Elements { ELEMENT v[]; };
// Where rows begin at multiples of 16 bytes the compiler has to see it, to load so many at once: in the address, and in what is masked.
layout(buffer_reference, scalar, buffer_reference_align = 16) buffer AlignedElements { ELEMENT v[]; };
const bool ALIGNED = A_WIDTH == 8 && B_WIDTH == 8;
const uint MASK = ALIGNED ? ~7u : ~0u;

#define SUMS coopmat<float, gl_ScopeWorkgroup, TILE_M, TILE_N, gl_MatrixUseAccumulator>
#define A_MATRIX coopmat<ELEMENT, gl_ScopeWorkgroup, TILE_M, STEP, gl_MatrixUseA>
#define B_MATRIX coopmat<ELEMENT, gl_ScopeWorkgroup, STEP, TILE_N, gl_MatrixUseB>

// All steps of k, of operands whose edges are looked for as `mode` says.
#define MULTIPLY(mode, Elements)                                                                                          \
  tensorLayoutNV<2, mode> a_tensor = createTensorLayoutNV(2, mode), b_tensor = createTensorLayoutNV(2, mode);             \
  a_tensor = setTensorLayoutDimensionNV(a_tensor, A_K_NEIGHBOURS != 0 ? p.m : k_end, A_K_NEIGHBOURS != 0 ? k_end : p.m);  \
  b_tensor = setTensorLayoutDimensionNV(b_tensor, B_K_NEIGHBOURS != 0 ? p.n : k_end, B_K_NEIGHBOURS != 0 ? k_end : p.n);  \
  a_tensor = setTensorLayoutStrideNV(a_tensor, p.lda & MASK, 1);                                                          \
  b_tensor = setTensorLayoutStrideNV(b_tensor, p.ldb & MASK, 1);                                                          \
  for (uint k = k_begin; k < k_end; k += STEP) {                                                                          \
    A_MATRIX a;                                                                                                           \
    B_MATRIX b;                                                                                                           \
    if (A_K_NEIGHBOURS != 0)                                                                                              \
      coopMatLoadTensorNV(a, Elements(p.a).v, a_offset, sliceTensorLayoutNV(a_tensor, row0, TILE_M, k, STEP));            \
    else                                                                                                                  \
      coopMatLoadTensorNV(a, Elements(p.a).v, a_offset, sliceTensorLayoutNV(a_tensor, k, STEP, row0, TILE_M), turned);    \
    if (B_K_NEIGHBOURS != 0)                                                                                              \
      coopMatLoadTensorNV(b, Elements(p.b).v, b_offset, sliceTensorLayoutNV(b_tensor, column0, TILE_N, k, STEP), turned); \
    else                                                                                                                  \
      coopMatLoadTensorNV(b, Elements(p.b).v, b_offset, sliceTensorLayoutNV(b_tensor, k, STEP, column0, TILE_N));         \
    sums = coopMatMulAdd(a, b, sums);                                                                                     \
  }

// Does the epilogue of one result, and stores it. @param row0 of the tile, counted in the matrix; @param before rows of matrices before it
float finished(const in uint row, const in uint column, const in float sum, const in uint row0, const in uint column0,
               const in uint before) {
  if (row0 + row < p.m && column0 + column < p.n) finish_some(vec4(sum), before + row0 + row, column0 + column, 1);
  return sum;
}

void main() {
  uint group = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
  uint tiles_m = (p.m + TILE_M - 1) / TILE_M, tiles_n = (p.n + TILE_N - 1) / TILE_N, tiles = tiles_m * tiles_n;
  if (group >= tiles * p.batch * ((p.k + p.k_per_split - 1) / p.k_per_split)) return;
  uint tile = group % tiles, matrix = group / tiles % p.batch, split = group / tiles / p.batch;

  // Eight rows of tiles at a time, so that the tiles at work together share what they read.
  uint band = tile / (8 * tiles_n), first = band * 8, height = min(8, tiles_m - first), inside = tile - first * tiles_n;
  uint row0 = (first + inside % height) * TILE_M, column0 = inside / height * TILE_N;

  uint a_offset = matrix / p.inner * p.a_strides[0] + matrix % p.inner * p.a_strides[1];
  uint b_offset = matrix / p.inner * p.b_strides[0] + matrix % p.inner * p.b_strides[1];
  a_offset &= MASK, b_offset &= MASK;
  uint k_begin = (split * p.k_per_split) & ~(STEP - 1), k_end = min(p.k, k_begin + p.k_per_split);

  SUMS sums = SUMS(0.0);
  tensorViewNV<2, false, 1, 0> turned = createTensorViewNV(2, false, 1, 0);
  if (ALIGNED && M_FULL != 0 && N_FULL != 0 && K_FULL != 0) {
    MULTIPLY(gl_CooperativeMatrixClampModeUndefinedNV, AlignedElements)
  } else if (ALIGNED) {
    MULTIPLY(gl_CooperativeMatrixClampModeConstantNV, AlignedElements)
  } else {
    MULTIPLY(gl_CooperativeMatrixClampModeConstantNV, Elements)
  }
  coopMatPerElementNV(sums, sums, finished, row0, column0, (split * p.batch + matrix) * p.m);
}
