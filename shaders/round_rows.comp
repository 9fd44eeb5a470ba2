#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
// Rounds rows of x to bytes, 32 to a scale, for quantized_dot.comp: value = scale * code; the largest magnitude of a
// block has code 127. A block with an infinity or NaN gets the scale NaN. A few kilobytes: bound by its latency. Four
// threads a block, eight elements each. With a norm, one workgroup owns a row, adds up its squares first, and what is
// rounded is the normed row.
//
// variant: round_rows

#include "math.glsl"
#include "rounding.glsl"
#include "vectors.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint THREADS = 256;
layout(constant_id = 1) const uint DTYPE = 1;
layout(constant_id = 2) const uint WIDTH = 1;
layout(constant_id = 3) const uint NORM_DTYPE = 99;  // 99: there is none

layout(push_constant, scalar) uniform Push {
  uvec2 x, norm, codes, scales;
  uint k;
  float eps;
} p;

const bool NORM = NORM_DTYPE != 99;

shared float shared_values[THREADS];

void main() {
  uint thread = gl_LocalInvocationID.x, row = gl_WorkGroupID.y;
  uint step = THREADS * 8, first = gl_WorkGroupID.x * step;
  float factor = 1.0;
  if (NORM) {
    float squares = 0.0;
    for (uint e = thread * 8; e < p.k; e += step) {
      [[unroll]] for (uint i = 0; i < 8; i += 4) {
        vec4 x = load_vector(p.x, row * p.k + e + i, 4, DTYPE, WIDTH);
        squares += dot(x, x);
      }
    }
    shared_values[thread] = squares;
    barrier();
    for (uint half_ = THREADS / 2; half_ > 0; half_ /= 2) {
      if (thread < half_) shared_values[thread] += shared_values[thread + half_];
      barrier();
    }
    factor = 1.0 / sqrt(shared_values[0] / float(p.k) + p.eps);
    barrier();
  }
  for (uint begin = first; begin < p.k; begin += NORM ? step : gl_NumWorkGroups.x * step) {
    uint e = begin + thread * 8;
    vec4 x[2];
    float most = 0.0;
    [[unroll]] for (uint i = 0; i < 2; ++i) {
      x[i] = vec4(0.0);
      if (e < p.k) {
        x[i] = load_vector(p.x, row * p.k + e + 4 * i, 4, DTYPE, WIDTH);
        if (NORM) x[i] *= factor * load_vector(p.norm, e + 4 * i, 4, NORM_DTYPE, WIDTH);
      }
      vec4 a = abs(x[i]);
      most = m_max(most, m_max(m_max(a.x, a.y), m_max(a.z, a.w)));
    }
    shared_values[thread] = most;
    barrier();
    uint block = thread & ~3u;
    most = m_max(m_max(shared_values[block], shared_values[block + 1]),
                 m_max(shared_values[block + 2], shared_values[block + 3]));
    barrier();
    if (e >= p.k) continue;
    RoundingScale scale = rounding_scale(most);
    if ((thread & 3u) == 0) BufferF32(p.scales).v[row * (p.k / 32) + e / 32] = scale.scale;
    uvec2 words = uvec2(rounded_codes(x[0], scale), rounded_codes(x[1], scale));
    BufferWords(p.codes).v[(row * p.k + e) / 8] = words;
  }
}
