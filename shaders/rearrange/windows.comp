#version 460
#extension GL_GOOGLE_include_directive : require
// sliding_windows: a copy of the overlapping windows of x along one dimension, which become the last one. overlap_add:
// the sum of windows at their places, its gradient. Bytes-bound. A thread owns an element of the result, so that no two
// add to the same one; neighbouring threads write neighbours. Windows that overlap are read several times: neighbours
// read the same lines, which the cache holds. Windows are copied as raw bytes, so one kernel serves every dtype.
//
// variant: sliding_windows
// variant: overlap_add OVERLAP_ADD

#include "units.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint KIND = 4;  // bytes per element; of overlap_add the dtype

layout(push_constant, scalar) uniform Push {
  uvec2 x, y;
  uint n;                  // elements of y
  uint count, size, step;  // windows, their size, and from one to the next
  uint extent, inner;      // of the dimension they slide along; elements after it
#ifndef OVERLAP_ADD
  uvec3 x_strides;         // outer, inner, along
#endif
} p;

void main() {
  uint group = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
  for (uint k = 0; k < 4; ++k) {
    uint at = group * 1024 + k * 256 + gl_LocalInvocationID.x;
    if (at >= p.n) return;
#ifdef OVERLAP_ADD
    uint inner = at % p.inner, i = at / p.inner % p.extent, outer = at / p.inner / p.extent;
    uint first = i < p.size ? 0 : (i - p.size) / p.step + 1, end = min(i / p.step + 1, p.count);
    float sum = 0.0;
    for (uint j = first; j < end; ++j)
      sum += load_float(p.x, ((outer * p.count + j) * p.inner + inner) * p.size + (i - j * p.step), KIND);
    store_float(p.y, at, KIND, sum);
#else
    uint within = at % p.size, rest = at / p.size, inner = rest % p.inner, window = rest / p.inner;
    uint from = window / p.count * p.x_strides.x + inner * p.x_strides.y +
                (window % p.count * p.step + within) * p.x_strides.z;
    copy_unit(p.y, at, p.x, from, KIND);
#endif
  }
}
