#version 460
#extension GL_GOOGLE_include_directive : require
// Values and i64 indices of rows whose order is known: the end of sort and topk. Bytes-bound; the reads are random
// within a row. Reading the values here, not decoding them from keys, keeps -0 and the bits of NaN.
//
// variant: take_order

#include "units.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint UNIT = 4;

layout(push_constant, scalar) uniform Push {
  uvec2 x, order, values, indices;
  uint count, kept, n;
} p;

void main() {
  uint base = (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * 1024 + gl_LocalInvocationID.x;
  for (uint k = 0; k < 4; ++k) {
    uint i = base + k * 256;
    if (i >= p.count) return;
    uint at = uint(BufferI32(p.order).v[i]);
    copy_unit(p.values, i, p.x, i / p.kept * p.n + at, UNIT);
    BufferWords(p.indices).v[i] = uvec2(at, 0u);
  }
}
