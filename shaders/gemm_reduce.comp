#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
// Adds the partial sums of a product whose k was split, in order, and the bias. Bytes-bound; one result a thread, which has eight
// loads on their way at a time: with one it would wait for memory once a split.
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
  for (uint first = 0; first < p.splits; first += 8) {
    float parts[8];
    [[unroll]] for (uint s = 0; s < 8; ++s) {
      parts[s] = 0.0;
      if (first + s < p.splits) parts[s] = BufferF32(p.partial).v[(first + s) * p.count + i];
    }
    [[unroll]] for (uint s = 0; s < 8; ++s) sum += parts[s];
  }
  if (BIAS != 0) sum += load_float(p.bias, i % p.n, DTYPE);
  store_float(p.y, i, DTYPE, sum);
}
