#version 460
#extension GL_GOOGLE_include_directive : require
// Matmul of integers, modulo 2^32 or 2^64. Rare, so the kernel is simple: a workgroup computes 16 x 16 sums from tiles
// of both matrices in shared memory, which divides the bytes read by 16.
//
// variant: integer_matmul T=int T_INT
// variant: integer_matmul_i64 T=int64_t T_I64
// variant: integer_matmul_pairs T=uvec2 T_PAIR

#include "dtype.glsl"
#include "arithmetic.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint DTYPE = 5;

layout(push_constant, scalar) uniform Push {
  uvec2 a, b, y;
  uint batch, m, n, k;
} p;

shared T a_tile[16][17], b_tile[16][17];

void main() {
  uint group = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
  uint across = (p.n + 15) / 16, tiles = across * ((p.m + 15) / 16);
  uint matrix = group / tiles, tile = group % tiles;
  uint i = gl_LocalInvocationID.x / 16, j = gl_LocalInvocationID.x % 16;
  uint row = tile / across * 16 + i, column = tile % across * 16 + j;
  bool there = matrix < p.batch;
  T total = ZERO;
  for (uint first = 0; first < p.k; first += 16) {
    bool in_a = there && row < p.m && first + j < p.k, in_b = there && column < p.n && first + i < p.k;
    a_tile[i][j] = in_a ? load_value(p.a, (matrix * p.m + row) * p.k + first + j, DTYPE) : ZERO;
    b_tile[i][j] = in_b ? load_value(p.b, (matrix * p.k + first + i) * p.n + column, DTYPE) : ZERO;
    barrier();
    for (uint c = 0; c < 16; ++c) total = plus(total, times(a_tile[i][c], b_tile[c][j]));
    barrier();
  }
  if (there && row < p.m && column < p.n) store_value(p.y, (matrix * p.m + row) * p.n + column, DTYPE, total);
}
