#version 460
#extension GL_GOOGLE_include_directive : require
// Converts an index tensor to places in the memory of the indexed tensor, as a list of rows: the checked index times
// its stride, plus the strides of the other coordinates, plus the places from another index tensor. Bytes-bound.
//
// variant: linear_index

#include "index.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint INDEX_DTYPE = 4;
layout(constant_id = 1) const uint RANK = 1;
layout(constant_id = 2) const uint WRAPS = 0;  // negative indices count from the end

layout(push_constant, scalar) uniform Push {
  uvec2 places, index, base, index_errors;  // base: null for the first index
  uint n, limit, factor;
  uint sizes[8];    // of the index
  uint strides[8];  // of the coordinates in the indexed tensor
} p;

uint checked(uint i) {
  if (WRAPS != 0) {
    uvec2 value = load_index_u32s(p.index, i, INDEX_DTYPE);
    if (value.y == 0xffffffffu && value.x >= 0u - p.limit && p.limit > 0) return value.x + p.limit;
  }
  return load_index(p.index, i, INDEX_DTYPE, p.limit, p.index_errors);
}

void main() {
  uint first = (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * 1024 + gl_LocalInvocationID.x;
  for (uint k = 0; k < 4; ++k) {
    uint i = first + k * 256;
    if (i >= p.n) return;
    uint place = checked(i) * p.factor, rest = i;
    for (int d = int(RANK) - 1; d >= 0; --d) {
      place += rest % p.sizes[d] * p.strides[d];
      rest /= p.sizes[d];
    }
    if (p.base != uvec2(0u)) place += uint(BufferI32(p.base).v[i]);
    BufferI32(p.places).v[i] = int(place);
  }
}
