#version 460
#extension GL_GOOGLE_include_directive : require
// x + sin²(αx) / α, one element an invocation. Bytes-bound: one read, one write.

#include "dtype.glsl"
#include "math.glsl"

layout(local_size_x = 256) in;

layout(push_constant, scalar) uniform Push {
  uvec2 x, alpha, y;
  uint count, columns;
} p;

void main() {
  uint group = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
  uint i = group * 256 + gl_LocalInvocationID.x;
  if (i >= p.count) return;
  float x = load_float(p.x, i, F32), alpha = load_float(p.alpha, i % p.columns, F32);
  float sine = m_sin(alpha * x);
  store_float(p.y, i, F32, x + sine * sine / alpha);
}
