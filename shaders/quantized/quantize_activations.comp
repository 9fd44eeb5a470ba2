#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
// Quantizes activations, times a norm's weight if there is one, to bytes, 16 elements to a scale, for
// quantized_dot.comp (lib/rounding.glsl). The norm's other factor, one number per row, is applied by the matmuls; this
// kernel sums the squares of each block. A few kilobytes, so bound by latency. Two threads per block, eight elements
// each.
//
// variant: quantize_activations

#include "rounding.glsl"
#include "vectors.glsl"

layout(local_size_x = 128) in;
layout(constant_id = 0) const uint DTYPE = 1;
layout(constant_id = 1) const uint WIDTH = 1;
layout(constant_id = 2) const uint NORM_DTYPE = 99;  // 99: there is none

layout(push_constant, scalar) uniform Push {
  uvec2 x, norm, y;
  uint rows, k;
} p;

shared float largest[128];
shared float squares[128];

void main() {
  uint thread = gl_LocalInvocationID.x, row = gl_WorkGroupID.y, e = (gl_WorkGroupID.x * 128 + thread) * 8;
  vec4 x[2];
  float most = 0.0, square = 0.0;
  [[unroll]] for (uint i = 0; i < 2; ++i) {
    x[i] = vec4(0.0);
    if (e < p.k) {
      x[i] = load_vector(p.x, row * p.k + e + 4 * i, 4, DTYPE, WIDTH);
      square += dot(x[i], x[i]);
      if (NORM_DTYPE != 99) x[i] *= load_vector(p.norm, e + 4 * i, 4, NORM_DTYPE, WIDTH);
    }
    vec4 a = abs(x[i]);
    most = m_max(most, m_max(m_max(a.x, a.y), m_max(a.z, a.w)));
  }
  largest[thread] = most;
  squares[thread] = square;
  barrier();
  if (e >= p.k) return;
  uint block = thread & ~1u;
  ActivationScale scale = activation_scale(m_max(largest[block], largest[block + 1]));
  if (thread == block) {
    BufferF32(p.y).v[scale_place(p.rows, p.k, row, e)] = scale.scale;
    BufferF32(p.y).v[square_place(p.rows, p.k, row, e)] = squares[block] + squares[block + 1];
  }
  BufferWords(p.y).v[(row * p.k + e) / 8] = uvec2(quantize_four(x[0], scale), quantize_four(x[1], scale));
}
