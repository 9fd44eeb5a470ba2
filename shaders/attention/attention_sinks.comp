#version 460
#extension GL_GOOGLE_include_directive : require
// The sink of each attention row, a score without a value: the row is multiplied by what its keys have of the weights,
// sigmoid(logsumexp - sink), and logsumexp gets the sink. In place. Bytes-bound: rows are read and written once. 16
// threads per row, as in attention_rows.
//
// variant: attention_sinks

#include "math.glsl"
#include "vectors.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint DTYPE = 1;
layout(constant_id = 1) const uint WIDTH = 1;

layout(push_constant, scalar) uniform Push {
  uvec2 y, logsumexp, sinks;          // y: [B, H, T, D]; logsumexp: [B, H, T], f32; sinks: [H], f32
  uint queries, heads, size, count;   // count: total number of rows
} p;

void main() {
  uint id = gl_LocalInvocationID.x, row = (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * 16 + id / 16;
  bool there = row < p.count;
  float sink = 0.0, of_keys = 0.0;
  if (there) {
    sink = BufferF32(p.sinks).v[row / p.queries % p.heads];
    of_keys = BufferF32(p.logsumexp).v[row];
  }
  barrier();
  if (!there) return;
  float factor = 1.0 / (1.0 + exp(sink - of_keys));
  for (uint d = id % 16 * 4; d < p.size; d += 64) {
    vec4 values = load_vector(p.y, row * p.size + d, p.size - d, DTYPE, WIDTH);
    store_vector(p.y, row * p.size + d, p.size - d, DTYPE, WIDTH, values * factor);
  }
  if (id % 16 == 0)
    BufferF32(p.logsumexp).v[row] = m_max(of_keys, sink) + log(1.0 + exp(-abs(of_keys - sink)));
}
