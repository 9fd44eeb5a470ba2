#version 460
#extension GL_GOOGLE_include_directive : require
// Rotary position embedding. Bytes-bound: one read, one write; each head recomputes the angles, which costs less than
// reading them. A thread owns a pair of elements of one row, or two that are only copied.
//
// variant: rope

#include "dtype.glsl"
#include "math.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint DTYPE = 1;
layout(constant_id = 1) const uint INTERLEAVED = 0;
layout(constant_id = 2) const uint BACK = 0;
layout(constant_id = 3) const uint POSITIONS = 99;  // their dtype; 99: none

layout(push_constant, scalar) uniform Push {
  uvec2 x, frequencies, positions, y;
  uint count, heads, steps, size, pairs;
  uvec3 strides;  // batch, head, step
  uint each;      // 1: one position for each row
} p;

void main() {
  uint i = (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * 256 + gl_LocalInvocationID.x;
  if (i >= p.count) return;
  uint threads = (p.size + 1) / 2, thread = i % threads, row = i / threads;
  uint step = row % p.steps, head = row / p.steps;
  uint from = head / p.heads * p.strides.x + head % p.heads * p.strides.y + step * p.strides.z, to = row * p.size;
  if (thread >= p.pairs) {
    uint at = 2 * thread;
    store_float(p.y, to + at, DTYPE, load_float(p.x, from + at, DTYPE));
    if (at + 1 < p.size) store_float(p.y, to + at + 1, DTYPE, load_float(p.x, from + at + 1, DTYPE));
    return;
  }
  int position = int(step);
  if (POSITIONS != 99) position = p.each == 1 ? load_int(p.positions, step, POSITIONS)
                                              : position + load_int(p.positions, 0, POSITIONS);
  float angle = float(position) * BufferF32(p.frequencies).v[thread];
  float c = m_cos(angle), s = BACK != 0 ? -m_sin(angle) : m_sin(angle);
  uint first = INTERLEAVED != 0 ? 2 * thread : thread, second = INTERLEAVED != 0 ? first + 1 : first + p.pairs;
  float u = load_float(p.x, from + first, DTYPE), v = load_float(p.x, from + second, DTYPE);
  store_float(p.y, to + first, DTYPE, u * c - v * s);
  store_float(p.y, to + second, DTYPE, v * c + u * s);
}
