#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
// Quantizes activations, times a norm's weight if there is one, to bytes, 16 elements to a scale, for
// quantized_dot.comp (lib/rounding.glsl). The norm's other factor, one number per row, is applied by the matmuls; this
// kernel sums the squares of each block. A few kilobytes, so bound by latency. Two threads per block, eight elements
// each. With a gate, heads are normed here and multiplied by silu(gate), as gated_rms_norm does.
//
// variant: quantize_activations

#include "rounding.glsl"
#include "vectors.glsl"

layout(local_size_x = 128) in;
layout(constant_id = 0) const uint DTYPE = 1;
layout(constant_id = 1) const uint WIDTH = 1;
layout(constant_id = 2) const uint NORM_DTYPE = 99;  // 99: there is none

layout(constant_id = 3) const uint HEAD = 0;  // elements of a head, which divide 1024; 0: there is no gate
layout(constant_id = 4) const uint GATE_WIDTH = 1;

layout(push_constant, scalar) uniform Push {
  uvec2 x, norm, y, gate;
  uint rows, k, gate_pitch;
  float eps;
} p;

shared float largest[128];
shared float squares[128];

// What a head is multiplied by: 1 / sqrt(Σ x² / HEAD + eps), by squares of at most 1, which cannot overflow. Those of
// numbers that are small beside eps may become 0.
float head_factor(vec4 x[2]) {
  uint thread = gl_LocalInvocationID.x, first = thread / (HEAD / 8) * (HEAD / 8);
  vec4 a = abs(x[0]), b = abs(x[1]);
  largest[thread] = m_max(m_max(m_max(a.x, a.y), m_max(a.z, a.w)), m_max(m_max(b.x, b.y), m_max(b.z, b.w)));
  barrier();
  float most = 0.0;
  for (uint i = 0; i < HEAD / 8; ++i) most = m_max(most, largest[first + i]);
  float unit = most > (p.eps > 0.0 ? 1e-15 : 0.0) ? 1.0 / most : 1.0;
  squares[thread] = dot(x[0] * unit, x[0] * unit) + dot(x[1] * unit, x[1] * unit);
  barrier();
  float sum = 0.0;
  for (uint i = 0; i < HEAD / 8; ++i) sum += squares[first + i];
  barrier();
  return unit / sqrt(sum / float(HEAD) + p.eps * unit * unit);
}

vec4 silu(vec4 x) { return x / (1.0 + exp(-x)); }

void main() {
  uint thread = gl_LocalInvocationID.x, row = gl_WorkGroupID.y, e = (gl_WorkGroupID.x * 128 + thread) * 8;
  vec4 x[2];
  float most = 0.0, square = 0.0;
  [[unroll]] for (uint i = 0; i < 2; ++i) {
    x[i] = vec4(0.0);
    if (e < p.k) {
      x[i] = load_vector(p.x, row * p.k + e + 4 * i, 4, DTYPE, WIDTH);
      square += dot(x[i], x[i]);
      if (NORM_DTYPE != 99 && HEAD == 0) x[i] *= load_vector(p.norm, e + 4 * i, 4, NORM_DTYPE, WIDTH);
    }
  }
  if (HEAD != 0) {
    float factor = head_factor(x);
    [[unroll]] for (uint i = 0; i < 2; ++i) {
      if (e >= p.k) continue;
      x[i] *= factor * load_vector(p.norm, (e + 4 * i) % HEAD, 4, NORM_DTYPE, WIDTH);
      x[i] *= silu(load_vector(p.gate, row * p.gate_pitch + e + 4 * i, 4, DTYPE, GATE_WIDTH));
    }
    square = dot(x[0], x[0]) + dot(x[1], x[1]);
  }
  [[unroll]] for (uint i = 0; i < 2; ++i) {
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
