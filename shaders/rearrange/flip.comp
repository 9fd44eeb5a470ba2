#version 460
#extension GL_GOOGLE_include_directive : require
// A copy whose source may be read backwards along dimensions: strides have signs. Bytes-bound. Elements are moved as
// raw bytes, so one kernel serves every dtype. A workgroup of 256 covers 1024 elements, 256 apart.
//
// variant: flip

#include "units.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint UNIT = 4;  // bytes per element
layout(constant_id = 1) const int RANK = 1;

layout(push_constant, scalar) uniform Push {
  uvec2 x, y;
  uint n;
  int first;  // the element of x that becomes y's first
  uint sizes[8];
  int strides[8];
} p;

void main() {
  uint group = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
  for (uint k = 0; k < 4; ++k) {
    uint i = group * 1024 + k * 256 + gl_LocalInvocationID.x;
    if (i >= p.n) return;
    uint rest = i;
    int from = p.first;
    for (int d = RANK - 1; d >= 0; --d) {
      from += int(rest % p.sizes[d]) * p.strides[d];
      rest /= p.sizes[d];
    }
    copy_unit(p.y, i, p.x, uint(from), UNIT);
  }
}
