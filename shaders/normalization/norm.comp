#version 460
#extension GL_GOOGLE_include_directive : require
// layer_norm and rms_norm over the last dimension. Bytes-bound: a row is read once into registers (rows of up to 4096
// elements; longer ones are read again, from the cache), mean and variance take two passes over it, and it is written
// once. Short rows share a workgroup. The second pass also finds the rounding error of the mean, so a mean far from 0
// costs no digits. The first pass of layer_norm also finds the row's largest magnitude, and rms_norm additionally sums
// squares of scaled elements, so that no square leaves f32 (lib/row_scale.glsl).
//
// For add_layer_norm and add_rms_norm the row is x + delta: written once, rounded to its dtype, and then normalized as
// rounded. So a residual stream adds a sublayer's result in the same pass that reads it for the next sublayer.
//
// For gated_rms_norm the normed row is multiplied by silu(gate).
//
// If everything is aligned (VECTOR), a thread has runs of four neighbours, and loads and stores each run at once.
//
// variant: norm

#extension GL_EXT_control_flow_attributes : require
#include "vectors.glsl"
#include "row_threads.glsl"
#include "row_scale.glsl"

layout(constant_id = 2) const uint RMS = 0;
layout(constant_id = 3) const uint ELEMENTS_PER_THREAD = 4;  // elements per thread; 0: rows are too long for registers
layout(constant_id = 4) const uint X_DTYPE = 1;
layout(constant_id = 5) const uint W_DTYPE = 1;
layout(constant_id = 6) const uint B_DTYPE = 1;
layout(constant_id = 7) const uint GIVEN = 3;  // 1: weight, 2: bias, 4: delta, 8: a gate in place of delta
layout(constant_id = 8) const uint DELTA_DTYPE = 1;
layout(constant_id = 9) const uint Y_DTYPE = 1;
layout(constant_id = 10) const uint VECTOR = 0;  // ELEMENTS_PER_THREAD is then a multiple of four

const uint ARRAY = ELEMENTS_PER_THREAD > 0 ? ELEMENTS_PER_THREAD : 1;
const bool ADDS = (GIVEN & 4) != 0, GATES = (GIVEN & 8) != 0;

layout(push_constant, scalar) uniform Push {
  uvec2 x, w, b, y;
  uint rows, n;
  uvec2 x_strides;  // between rows, between elements
  uint w_stride, b_stride;
  float eps;
  uvec2 delta, sum;
  uint delta_rows;  // rows of x use these rows of delta in turn
  uvec2 delta_strides;
} p;

vec2 combine_sum(vec2 a, vec2 b) { return a + b; }
ETNA_REDUCE_ROW(row_sum, combine_sum)
vec2 combine_first(vec2 a, vec2 b) { return vec2(a.x + b.x, max(a.y, b.y)); }
ETNA_REDUCE_ROW(row_first, combine_first)

float as_stored(float v) {
  if (X_DTYPE == F16) return half_to_float(float_to_half(v));
  if (X_DTYPE == BF16) return bfloat16_to_float(float_to_bfloat16(v));
  return v;
}

// Element i of a row of x, or of the sum, which this also writes.
float element(uint row, uint delta_row, uint i) {
  float v = load_float(p.x, row * p.x_strides.x + i * p.x_strides.y, X_DTYPE);
  if (!ADDS) return v;
  v = as_stored(v + load_float(p.delta, delta_row * p.delta_strides.x + i * p.delta_strides.y, DELTA_DTYPE));
  store_float(p.sum, row * p.n + i, X_DTYPE, v);
  return v;
}

void main() {
  uint row_thread = this_row_thread(), row = workgroup_index() * SLOTS + this_slot();
  uint n = row < p.rows ? p.n : 0, delta_row = ADDS ? row % p.delta_rows : 0;
  float elements[ARRAY];
  if (VECTOR != 0) {
    vec4 x[ARRAY / 4 + 1], delta[ARRAY / 4 + 1];
    [[unroll]] for (uint q = 0; q < ELEMENTS_PER_THREAD / 4; ++q) {
      uint i = (q * THREADS_PER_ROW + row_thread) * 4;
      if (i >= n) continue;
      x[q] = load_vector(p.x, row * p.x_strides.x + i, 4, X_DTYPE, 4);
      if (ADDS) delta[q] = load_vector(p.delta, delta_row * p.delta_strides.x + i, 4, DELTA_DTYPE, 4);
    }
    [[unroll]] for (uint q = 0; q < ELEMENTS_PER_THREAD / 4; ++q) {
      uint i = (q * THREADS_PER_ROW + row_thread) * 4;
      vec4 v = i < n ? x[q] : vec4(0.0);
      if (ADDS && i < n) {
        v += delta[q];
        [[unroll]] for (uint c = 0; c < 4; ++c) v[c] = as_stored(v[c]);
        store_vector(p.sum, row * p.n + i, 4, X_DTYPE, 4, v);
      }
      [[unroll]] for (uint c = 0; c < 4; ++c) elements[q * 4 + c] = v[c];
    }
  } else if (ELEMENTS_PER_THREAD > 0) {
    for (uint k = 0; k < ELEMENTS_PER_THREAD; ++k) {
      uint i = k * THREADS_PER_ROW + row_thread;
      elements[k] = i < n ? element(row, delta_row, i) : 0.0;
    }
  } else if (ADDS) {
    // each thread reads back only its own writes
    for (uint i = row_thread; i < n; i += THREADS_PER_ROW) element(row, delta_row, i);
  }
  uvec2 from = ADDS ? p.sum : p.x, strides = ADDS ? uvec2(p.n, 1) : p.x_strides;
  uint base = row * strides.x;
// Runs body for each element of the row that this thread has; the k-th is element i.
#define EACH(body)                                                          \
  if (VECTOR != 0) {                                                        \
    [[unroll]] for (uint k = 0; k < ELEMENTS_PER_THREAD; ++k) {             \
      uint i = (k / 4 * THREADS_PER_ROW + row_thread) * 4 + k % 4;          \
      if (i < n) body                                                       \
    }                                                                       \
  } else {                                                                  \
    for (uint k = 0, i = row_thread; i < n; ++k, i += THREADS_PER_ROW) body \
  }
#define AT(k, i) (ELEMENTS_PER_THREAD > 0 ? elements[k] : load_float(from, base + (i) * strides.y, X_DTYPE))
  float count = float(p.n), mean = 0.0, fit = 1.0;  // fit: a power of two for the row's elements
  if (RMS == 0 || shows_small(p.eps)) {
    vec2 first = vec2(0.0);  // Σ x, and the largest |x|
    EACH({
      float x = AT(k, i);
      first = vec2(first.x + x * kSumDown, max(first.y, abs(x)));
    })
    first = row_first(first);
    fit = row_scale(first.y, p.eps);
    if (RMS == 0) mean = first.x / count * kSumUp;
  }
  vec2 about = vec2(0.0);  // Σ d², and Σ d or for rms_norm Σ (d · 2^-80)²
  EACH({
    float d = (AT(k, i) - mean) * fit;
    float less = d * kDown;
    about += vec2(d * d, RMS != 0 ? less * less : d);
  })
  about = row_sum(about) / count;
  if (RMS != 0) {
    if (!(about.x < kLargeSquares)) about.x = about.y, fit *= kDown;
    about.y = 0.0;
  }
  float scale = 1.0 / sqrt(about.x - about.y * about.y + p.eps * fit * fit);
  if (VECTOR != 0) {
    [[unroll]] for (uint q = 0; q < ELEMENTS_PER_THREAD / 4; ++q) {
      uint i = (q * THREADS_PER_ROW + row_thread) * 4;
      if (i >= n) continue;
      vec4 y = ((vec4(elements[q * 4], elements[q * 4 + 1], elements[q * 4 + 2], elements[q * 4 + 3]) - mean) * fit
                - about.y) * scale;
      if ((GIVEN & 1) != 0) y *= load_vector(p.w, i, 4, W_DTYPE, 4);
      if ((GIVEN & 2) != 0) y += load_vector(p.b, i, 4, B_DTYPE, 4);
      if (GATES) {
        vec4 gate = load_vector(p.delta, row * p.delta_strides.x + i, 4, DELTA_DTYPE, 4);
        y *= gate / (1.0 + exp(-gate));
      }
      store_vector(p.y, row * p.n + i, 4, Y_DTYPE, 4, y);
    }
    return;
  }
  for (uint k = 0, i = row_thread; i < n; ++k, i += THREADS_PER_ROW) {
    float y = ((AT(k, i) - mean) * fit - about.y) * scale;
    if ((GIVEN & 1) != 0) y *= load_float(p.w, i * p.w_stride, W_DTYPE);
    if ((GIVEN & 2) != 0) y += load_float(p.b, i * p.b_stride, B_DTYPE);
    if (GATES) {
      float gate = load_float(p.delta, row * p.delta_strides.x + i * p.delta_strides.y, DELTA_DTYPE);
      y *= gate / (1.0 + exp(-gate));
    }
    store_float(p.y, row * p.n + i, Y_DTYPE, y);
  }
}
