#version 460
#extension GL_GOOGLE_include_directive : require
// Adds the partial sums of a product whose k was split, in order, and the bias. Bytes-bound; one result a thread.
//
// variant: gemm_reduce

#include "dtype.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint DTYPE = 1;
layout(constant_id = 1) const uint BIAS = 0;

layout(push_constant, scalar) uniform Push {
  uvec2 partial, y, bias;
  uint count, n, splits;
} p;

void main() {
  uint i = (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * 256 + gl_LocalInvocationID.x;
  if (i >= p.count) return;
  float sum = 0.0;
  for (uint s = 0; s < p.splits; ++s) sum += BufferF32(p.partial).v[s * p.count + i];
  if (BIAS != 0) sum += load_float(p.bias, i % p.n, DTYPE);
  store_float(p.y, i, DTYPE, sum);
}
