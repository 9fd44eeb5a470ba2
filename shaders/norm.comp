#version 460
#extension GL_GOOGLE_include_directive : require
// layer_norm and rms_norm over the last dimension. Bytes-bound: a row is read once into registers (rows of up to 4096
// elements; longer ones are read again, from the cache), mean and variance take two passes over it, and it is written once.
// Short rows share a workgroup. The second pass also finds what rounding took from the mean, so that a mean far from 0 costs
// no digits.
//
// variant: norm

#include "dtype.glsl"
#include "lanes.glsl"

layout(constant_id = 2) const uint RMS = 0;
layout(constant_id = 3) const uint HELD = 4;  // elements a thread holds; 0: rows are too long to be held
layout(constant_id = 4) const uint X_DTYPE = 1;
layout(constant_id = 5) const uint W_DTYPE = 1;
layout(constant_id = 6) const uint B_DTYPE = 1;
layout(constant_id = 7) const uint GIVEN = 3;  // 1: weight, 2: bias

const uint ARRAY = HELD > 0 ? HELD : 1;

layout(push_constant, scalar) uniform Push {
  uvec2 x, w, b, y;
  uint rows, n;
  uvec2 x_strides;  // between rows, between elements
  uint w_stride, b_stride;
  float eps;
} p;

vec2 join_sum(vec2 a, vec2 b) { return a + b; }
ETNA_JOIN_LANES(row_sum, join_sum)

void main() {
  uint lane = this_lane(), row = workgroup_index() * SLOTS + this_slot();
  uint n = row < p.rows ? p.n : 0, base = row * p.x_strides.x;
  float held[ARRAY];
#define AT(k, i) (HELD > 0 ? held[k] : load_float(p.x, base + (i) * p.x_strides.y, X_DTYPE))
  if (HELD > 0) {
    for (uint k = 0; k < HELD; ++k) {
      uint i = k * LANES + lane;
      held[k] = i < n ? load_float(p.x, base + i * p.x_strides.y, X_DTYPE) : 0.0;
    }
  }
  float count = float(p.n), mean = 0.0;
  if (RMS == 0) {
    float total = 0.0;
    for (uint k = 0, i = lane; i < n; ++k, i += LANES) total += AT(k, i);
    mean = row_sum(vec2(total, 0.0)).x / count;
  }
  vec2 about = vec2(0.0);  // Σ d², Σ d
  for (uint k = 0, i = lane; i < n; ++k, i += LANES) {
    float d = AT(k, i) - mean;
    about += vec2(d * d, d);
  }
  about = row_sum(about) / count;
  if (RMS != 0) about.y = 0.0;
  float scale = 1.0 / sqrt(about.x - about.y * about.y + p.eps);
  for (uint k = 0, i = lane; i < n; ++k, i += LANES) {
    float y = ((AT(k, i) - mean) - about.y) * scale;
    if ((GIVEN & 1) != 0) y *= load_float(p.w, i * p.w_stride, W_DTYPE);
    if ((GIVEN & 2) != 0) y += load_float(p.b, i * p.b_stride, B_DTYPE);
    store_float(p.y, row * p.n + i, X_DTYPE, y);
  }
}
