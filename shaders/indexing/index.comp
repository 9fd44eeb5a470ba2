#version 460
#extension GL_GOOGLE_include_directive : require
// Copies by index. Bytes-bound: each written element is read once; whether neighbouring threads share addresses depends
// on the index. Elements are moved as bytes, so one kernel serves every dtype.
//
// index_select moves rows of `inner` units of up to 16 bytes. gather moves single elements over up to eight dimensions
// with the strides of x. A workgroup of 256 covers 1024 units, 256 apart, so that neighbouring threads write
// neighbours.
//
// variant: index_select
// variant: gather GATHER

#include "index.glsl"
#include "units.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint UNIT = 4;
layout(constant_id = 1) const uint INDEX_DTYPE = 4;

#ifdef GATHER
layout(constant_id = 2) const uint RANK = 1;
layout(constant_id = 3) const uint DIM = 0;
layout(push_constant, scalar) uniform Push {
  uvec2 y, x, index, index_errors;
  uint n;
  uint limit;       // size of x along DIM
  uint sizes[8];    // of the index
  uint strides[8];  // of x
} p;

void move(uint i) {
  uint rest = i, from = load_index(p.index, i, INDEX_DTYPE, p.limit, p.index_errors) * p.strides[DIM];
  for (int d = int(RANK) - 1; d >= 0; --d) {
    if (d != int(DIM)) from += rest % p.sizes[d] * p.strides[d];
    rest /= p.sizes[d];
  }
  copy_unit(p.y, i, p.x, from, UNIT);
}
#else
layout(push_constant, scalar) uniform Push {
  uvec2 y, x, index, index_errors;
  uint n;
  uint inner;  // units per row
  uint count;  // number of indices
  uint limit;  // number of rows in x
} p;

void move(uint i) {
  uint row = i / p.inner;
  uint chosen = load_index(p.index, row % p.count, INDEX_DTYPE, p.limit, p.index_errors);
  copy_unit(p.y, i, p.x, (row / p.count * p.limit + chosen) * p.inner + i % p.inner, UNIT);
}
#endif

void main() {
  uint group = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
  for (uint k = 0; k < 4; ++k) {
    uint i = group * 1024 + k * 256 + gl_LocalInvocationID.x;
    if (i < p.n) move(i);
  }
}
