#version 460
#extension GL_GOOGLE_include_directive : require
// gate(a) ⊙ b + residual, where a and b are the left and right half of a matrix: the gate after the gemm of
// quantized_linear. Bytes-bound; a thread owns four adjacent elements.
//
// variant: quantized_gate

#include "epilogue.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint GATE = 0;  // etna::Activation
layout(constant_id = 1) const uint DTYPE = 1;
layout(constant_id = 2) const uint RESIDUAL_DTYPE = 99;  // 99: there is none
layout(constant_id = 3) const uint WIDTH = 1;
layout(constant_id = 4) const uint Y_DTYPE = 1;

layout(push_constant, scalar) uniform Push {
  uvec2 gate_and_up, residual, y;
  uint rows, n;
} p;

void main() {
  uint quads = (p.n + 3) / 4;
  uint thread = (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * 256 + gl_LocalInvocationID.x;
  uint row = thread / quads, column = thread % quads * 4, count = min(4, p.n - column);
  if (row >= p.rows) return;
  uint at = row * 2 * p.n + column, to = row * p.n + column;
  vec4 a = load_vector(p.gate_and_up, at, count, DTYPE, WIDTH);
  vec4 b = load_vector(p.gate_and_up, at + p.n, count, DTYPE, WIDTH);
  vec4 y = vec4(activated(a.x, GATE), activated(a.y, GATE), activated(a.z, GATE), activated(a.w, GATE)) * b;
  if (RESIDUAL_DTYPE != 99) y += load_vector(p.residual, to, count, RESIDUAL_DTYPE, WIDTH);
  store_vector(p.y, to, count, Y_DTYPE, WIDTH, y);
}
