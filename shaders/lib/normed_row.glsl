// Divides a row of f32 by its root mean square and multiplies it by a weight; the result is f16 or bf16. Run by the 256
// threads of a workgroup. The shader declares the specialization constants DTYPE, of the results, and NORM_DTYPE.
//
// In f16, results are multiplied by a power of two, so that none overflows: a normalized row is at most sqrt(k) in
// magnitude, so all results are at most sqrt(k) times the largest weight. The power scales that bound to [2^14, 2^15).
#ifndef ETNA_NORMED_ROW_GLSL
#define ETNA_NORMED_ROW_GLSL

#include "math.glsl"
#include "row_scale.glsl"
#include "vectors.glsl"

struct NormedRow {
  uvec2 x, norm, y, factor;  // factor: one f32 that undoes the power of two
  uint row, x_begin, k;
  float eps;
};

shared vec2 normed_row_sums[256];  // of squares of x, and of x · 2^-80 (row_scale.glsl)
shared float normed_row_largest[256];

void write_normed_row(NormedRow r, uint width) {
  uint thread = gl_LocalInvocationID.x;
  vec2 squares = vec2(0.0);
  float most = 0.0;
  for (uint e = thread * 4; e < r.k; e += 1024) {
    uint count = min(4, r.k - e);
    vec4 x = load_vector(r.x, r.x_begin + e, count, F32, width);
    squares += vec2(dot(x, x), dot(x * kDown, x * kDown));
    if (DTYPE == F16) {
      vec4 w = abs(load_vector(r.norm, e, count, NORM_DTYPE, width));
      for (uint i = 0; i < 4; ++i)
        if (!m_isnan(w[i]) && !m_isinf(w[i])) most = max(most, w[i]);
    }
  }
  normed_row_sums[thread] = squares;
  normed_row_largest[thread] = most;
  barrier();
  for (uint half_ = 128; half_ > 0; half_ /= 2) {
    if (thread < half_) {
      normed_row_sums[thread] += normed_row_sums[thread + half_];
      normed_row_largest[thread] = max(normed_row_largest[thread], normed_row_largest[thread + half_]);
    }
    barrier();
  }
  squares = normed_row_sums[0] / float(r.k);
  float fit = squares.x < kLargeSquares ? 1.0 : kDown;
  float scale = 1.0 / sqrt((fit == 1.0 ? squares.x : squares.y) + r.eps * fit * fit);
  // 2^-shift is a normal number for every shift.
  uint bits = floatBitsToUint(min(normed_row_largest[0] * sqrt(float(r.k)), 3.0e38));
  int shift = DTYPE != F16 || bits == 0 ? 0 : max(int(bits >> 23) - 127 - 14, -100);
  float power = uintBitsToFloat(uint(127 - shift) << 23);
  if (DTYPE == F16 && r.row == 0 && thread == 0)
    BufferF32(r.factor).v[0] = uintBitsToFloat(uint(127 + shift) << 23);
  for (uint e = thread * 4; e < r.k; e += 1024) {
    uint count = min(4, r.k - e);
    vec4 x = load_vector(r.x, r.x_begin + e, count, F32, width) * fit * scale;
    vec4 w = load_vector(r.norm, e, count, NORM_DTYPE, width);
    store_vector(r.y, r.row * r.k + e, count, DTYPE, width, x * (w * power));
  }
}

#endif
