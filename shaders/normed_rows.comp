#version 460
#extension GL_GOOGLE_include_directive : require
// Rows of f32 over their root mean square, times a weight, in f16 or bf16: what a product with many rows reads. Bound
// by its latency. A workgroup owns a row.
//
// In f16, numbers are multiplied by a power of two, so that none overflows: a normed row is at most sqrt(k) in
// magnitude, hence all results are at most sqrt(k) times the largest weight, which the power brings to [2^14, 2^15).
//
// variant: normed_rows

#include "math.glsl"
#include "vectors.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint DTYPE = 1;  // of the results
layout(constant_id = 1) const uint NORM_DTYPE = 0;
layout(constant_id = 2) const uint WIDTH = 1;

layout(push_constant, scalar) uniform Push {
  uvec2 x, norm, y, factor;  // factor: one f32, what undoes the power of two
  uint rows, k;
  float eps;
} p;

shared float sums[256];
shared float largest[256];

void main() {
  uint thread = gl_LocalInvocationID.x, row = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
  if (row >= p.rows) return;
  float squares = 0.0, most = 0.0;
  for (uint e = thread * 4; e < p.k; e += 1024) {
    uint count = min(4, p.k - e);
    vec4 x = load_vector(p.x, row * p.k + e, count, F32, WIDTH);
    squares += dot(x, x);
    if (DTYPE == F16) {
      vec4 w = abs(load_vector(p.norm, e, count, NORM_DTYPE, WIDTH));
      for (uint i = 0; i < 4; ++i)
        if (!m_isnan(w[i]) && !m_isinf(w[i])) most = max(most, w[i]);
    }
  }
  sums[thread] = squares;
  largest[thread] = most;
  barrier();
  for (uint half_ = 128; half_ > 0; half_ /= 2) {
    if (thread < half_) {
      sums[thread] += sums[thread + half_];
      largest[thread] = max(largest[thread], largest[thread + half_]);
    }
    barrier();
  }
  float scale = 1.0 / sqrt(sums[0] / float(p.k) + p.eps);
  // 2^-shift is a normal number for every shift.
  uint bits = floatBitsToUint(min(largest[0] * sqrt(float(p.k)), 3.0e38));
  int shift = DTYPE != F16 || bits == 0 ? 0 : max(int(bits >> 23) - 127 - 14, -100);
  float power = uintBitsToFloat(uint(127 - shift) << 23);
  if (DTYPE == F16 && row == 0 && thread == 0) BufferF32(p.factor).v[0] = uintBitsToFloat(uint(127 + shift) << 23);
  for (uint e = thread * 4; e < p.k; e += 1024) {
    uint count = min(4, p.k - e);
    vec4 x = load_vector(p.x, row * p.k + e, count, F32, WIDTH) * scale;
    vec4 w = load_vector(p.norm, e, count, NORM_DTYPE, WIDTH);
    store_vector(p.y, row * p.k + e, count, DTYPE, WIDTH, x * (w * power));
  }
}
