#version 460
#extension GL_GOOGLE_include_directive : require
// Binary search of values in sorted rows. Bound by the reads of the last steps; the first steps read the same elements
// for all values, from caches. Keys are compared, so that NaN is the largest, as in sort.
//
// variant: search_rows

#include "sort_keys.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint DTYPE = 1;
layout(constant_id = 1) const uint WIDE_RESULT = 1;
layout(constant_id = 2) const uint RIGHT = 0;

layout(push_constant, scalar) uniform Push {
  uvec2 sorted, values, y;
  uint count, n;
  uint per_row;  // values per sorted row
} p;

uvec2 words_at(uvec2 address, uint i) {
  return uvec2(key_of(address, i, DTYPE, 0), DTYPE == I64 ? key_of(address, i, DTYPE, 1) : 0u);
}
bool is_less(uvec2 a, uvec2 b) { return a.y < b.y || (a.y == b.y && a.x < b.x); }

void main() {
  uint i = (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * 256 + gl_LocalInvocationID.x;
  if (i >= p.count) return;
  uvec2 value = words_at(p.values, i);
  uint row = i / p.per_row * p.n, low = 0, high = p.n;
  while (low < high) {
    uint middle = low + (high - low) / 2;
    uvec2 there = words_at(p.sorted, row + middle);
    if (RIGHT != 0 ? !is_less(value, there) : is_less(there, value)) low = middle + 1;
    else high = middle;
  }
  if (WIDE_RESULT != 0) BufferWords(p.y).v[i] = uvec2(low, 0u);
  else BufferI32(p.y).v[i] = int(low);
}
