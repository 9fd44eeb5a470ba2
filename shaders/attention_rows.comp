#version 460
#extension GL_GOOGLE_include_directive : require
// Of each query, its logsumexp and Σ y · dy side by side, for the gradient kernels. Bytes-bound; eight threads a row.
//
// variant: attention_rows

#include "vectors.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint DTYPE = 1;

layout(push_constant, scalar) uniform Push {
  uvec2 y, dy, logsumexp, rows;
  uint dy_strides[3];  // of batch, head and row; y is contiguous
  uint queries, heads, head_size, count;
} p;

shared float parts[256];

void main() {
  uint id = gl_LocalInvocationID.x, row = (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * 32 + (id >> 3);
  float part = 0.0;
  if (row < p.count) {
    uint matrix = row / p.queries;
    uint from = matrix / p.heads * p.dy_strides[0] + matrix % p.heads * p.dy_strides[1] + row % p.queries * p.dy_strides[2];
    for (uint d = id & 7u; d < p.head_size; d += 8) part += load_float(p.y, row * p.head_size + d, DTYPE) * load_float(p.dy, from + d, DTYPE);
  }
  parts[id] = part;
  barrier();
  if ((id & 7u) != 0 || row >= p.count) return;
  float sum = 0.0;
  for (uint i = 0; i < 8; ++i) sum += parts[id + i];
  BufferVec2(p.rows).v[row] = vec2(BufferF32(p.logsumexp).v[row], sum);
}
