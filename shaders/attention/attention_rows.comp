#version 460
#extension GL_GOOGLE_include_directive : require
// Σ result · gradient of each attention row; the gradients of longer sequences need it in every tile. Bytes-bound: both
// inputs are read once. 16 threads per row: a head of 64 is one load per thread, and neighbouring threads read
// neighbouring bytes.
//
// variant: attention_rows

#extension GL_EXT_control_flow_attributes : require
#include "vectors.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint DTYPE = 1;
layout(constant_id = 1) const uint WIDTH = 1;

layout(push_constant, scalar) uniform Push {
  uvec2 y, dy, rows;                  // rows: [B, H, T], f32
  uint y_strides[3], dy_strides[3];   // of batch, head and row
  uint queries, heads, size, count;   // count: total number of rows
} p;

shared float sums[256];

void main() {
  uint id = gl_LocalInvocationID.x, row = (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * 16 + id / 16;
  float sum = 0.0;
  if (row < p.count) {
    uint query = row % p.queries, head = row / p.queries % p.heads, b = row / p.queries / p.heads;
    uint y = b * p.y_strides[0] + head * p.y_strides[1] + query * p.y_strides[2];
    uint dy = b * p.dy_strides[0] + head * p.dy_strides[1] + query * p.dy_strides[2];
    for (uint d = id % 16 * 4; d < p.size; d += 64) {
      sum += dot(load_vector(p.y, y + d, p.size - d, DTYPE, WIDTH),
                 load_vector(p.dy, dy + d, p.size - d, DTYPE, WIDTH));
    }
  }
  sums[id] = sum;
  barrier();
  [[unroll]] for (uint n = 8; n > 0; n /= 2) {
    if (id % 16 < n) sums[id] += sums[id + n];
    barrier();
  }
  if (id % 16 == 0 && row < p.count) BufferF32(p.rows).v[row] = sums[id];
}
