#version 460
#extension GL_GOOGLE_include_directive : require
// Values and i64 indices of rows whose order is known: the end of topk, and of sort by radix. Bytes-bound. If the
// sorted keys are given, values are computed from them; only NaN and zeros, whose keys do not determine their bits, are
// read from x. Without keys all values are read from x, in random order within a row.
//
// variant: take_order

#include "sort_keys.glsl"
#include "units.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint UNIT = 4;
layout(constant_id = 1) const uint DTYPE = 1;
layout(constant_id = 2) const uint DESCENDING = 0;
layout(constant_id = 3) const uint KEYS = 0;

layout(push_constant, scalar) uniform Push {
  uvec2 x, order, keys, values, indices;
  uint count, kept, n;
} p;

void main() {
  uint base = (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * 1024 + gl_LocalInvocationID.x;
  for (uint k = 0; k < 4; ++k) {
    uint i = base + k * 256;
    if (i >= p.count) return;
    uint at = uint(BufferI32(p.order).v[i]);
    bool stored = KEYS != 0 && store_value_of_key(p.values, i, uint(BufferI32(p.keys).v[i]), DTYPE, DESCENDING != 0);
    if (!stored) copy_unit(p.values, i, p.x, i / p.kept * p.n + at, UNIT);
    BufferWords(p.indices).v[i] = uvec2(at, 0u);
  }
}
