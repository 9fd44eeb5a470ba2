#version 460
#extension GL_GOOGLE_include_directive : require
// Elementwise ops, casts and copies with an operand whose contiguous dimension is not the result's, such as a
// transposed matrix; TRANSPOSED marks such operands. Bytes-bound: each operand is read once, the result is written
// once.
//
// A workgroup owns a tile of TILE x TILE. A transposed operand is read with neighbouring threads along its contiguous
// dimension, 64 elements being two to eight whole sectors, and is transposed through shared memory. A line of the tile
// is padded by one u32, so that neither side has bank conflicts. All operands use the same tile one after another,
// which keeps it at 17 KiB. A thread has all of its loads, TILE² / 256 per operand, in flight before it uses the first:
// 16 loads hide the memory latency where few workgroups fit. Smaller tiles (32) are for matrices that would give too
// few workgroups.
//
// Lost: elementwise.comp's strided loads, where every element of a transposed operand costs a whole sector: 2.5 times
// the time.
//
// variant: elementwise_transposed_float T=float T_FLOAT
// variant: elementwise_transposed_int T=int T_INT

#extension GL_EXT_control_flow_attributes : require
#include "dtype.glsl"
#include "math.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint OP = 0;
layout(constant_id = 1) const uint TRANSPOSED = 1;  // 1: a, 2: b, 4: c
layout(constant_id = 2) const uint SCALAR = 0;  // 1, 2, 3: operand a, b, c is p.scalar
layout(constant_id = 3) const uint OUT_DTYPE = 1;
layout(constant_id = 4) const uint A_DTYPE = 1;
layout(constant_id = 5) const uint B_DTYPE = 1;
layout(constant_id = 6) const uint C_DTYPE = 1;
layout(constant_id = 7) const uint ARITY = 1;
layout(constant_id = 8) const uint TILE = 64;
// lines covered by all threads at once; elements per thread
const uint LINES = 256 / TILE, ELEMENTS_PER_THREAD = TILE / LINES;

layout(push_constant, scalar) uniform Push {
  uvec2 y, a, b, c;
  uvec2 scalar;
  uint rows, columns;
  uint groups;  // total number of tiles
  uint inner;   // size of the inner of the two batch dimensions
  uvec4 y_strides, a_strides, b_strides, c_strides;  // outer, inner, row, column
} p;

#include "elementwise.glsl"

shared T tile[TILE * (TILE + 1)];

uvec4 corner;      // outer, inner, row, column of the tile's first element
uint fast, slow;   // this thread's position in a line, and its first line

void load(out T elements[ELEMENTS_PER_THREAD], uvec2 address, uvec4 strides, uint dtype, bool transposed) {
  [[unroll]] for (uint k = 0; k < ELEMENTS_PER_THREAD; ++k) {
    uint line = slow + k * LINES;
    uvec2 at = corner.zw + (transposed ? uvec2(fast, line) : uvec2(line, fast));
    bool there = at.x < p.rows && at.y < p.columns;
    uint i = corner.x * strides.x + corner.y * strides.y + at.x * strides.z + at.y * strides.w;
    elements[k] = there ? load_value(address, i, dtype) : T(0);
  }
}

void transpose_tile(inout T elements[ELEMENTS_PER_THREAD]) {
  barrier();
  [[unroll]] for (uint k = 0; k < ELEMENTS_PER_THREAD; ++k) tile[(slow + k * LINES) * (TILE + 1) + fast] = elements[k];
  barrier();
  [[unroll]] for (uint k = 0; k < ELEMENTS_PER_THREAD; ++k) elements[k] = tile[fast * (TILE + 1) + slow + k * LINES];
}

void main() {
  uint group = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
  if (group >= p.groups) return;
  uint across = (p.columns + TILE - 1) / TILE, down = (p.rows + TILE - 1) / TILE;
  uint matrix = group / (across * down), place = group % (across * down);
  corner = uvec4(matrix / p.inner, matrix % p.inner, place / across * TILE, place % across * TILE);
  fast = gl_LocalInvocationID.x % TILE;
  slow = gl_LocalInvocationID.x / TILE;
  const bool has_a = SCALAR != 1, has_b = ARITY >= 2 && SCALAR != 2, has_c = ARITY >= 3 && SCALAR != 3;
  T a[ELEMENTS_PER_THREAD], b[ELEMENTS_PER_THREAD], c[ELEMENTS_PER_THREAD];
  [[unroll]] for (uint k = 0; k < ELEMENTS_PER_THREAD; ++k) a[k] = b[k] = c[k] = immediate(p.scalar);
  if (has_a) load(a, p.a, p.a_strides, A_DTYPE, (TRANSPOSED & 1) != 0);
  if (has_b) load(b, p.b, p.b_strides, B_DTYPE, (TRANSPOSED & 2) != 0);
  if (has_c) load(c, p.c, p.c_strides, C_DTYPE, (TRANSPOSED & 4) != 0);
  if ((TRANSPOSED & 1) != 0) transpose_tile(a);
  if ((TRANSPOSED & 2) != 0) transpose_tile(b);
  if ((TRANSPOSED & 4) != 0) transpose_tile(c);
  [[unroll]] for (uint k = 0; k < ELEMENTS_PER_THREAD; ++k) {
    uvec2 at = corner.zw + uvec2(slow + k * LINES, fast);
    uint i = corner.x * p.y_strides.x + corner.y * p.y_strides.y + at.x * p.y_strides.z + at.y * p.y_strides.w;
    if (at.x < p.rows && at.y < p.columns) store_value(p.y, i, OUT_DTYPE, compute(a[k], b[k], c[k]));
  }
}
