#version 460
#extension GL_GOOGLE_include_directive : require
// Gradients of layer_norm and rms_norm. Bytes-bound: x and the gradient are read once, dx is written once; the moments
// of a row are recomputed from x instead of being saved by the forward pass. With n the normalized x and s = gradient ·
// weight,
//   dx = (s - mean(s) - n · mean(s · n)) / deviation     (rms_norm: without mean(s))
// from elements scaled as in the forward pass, plus an optional second gradient of x: that of a residual stream, which
// bypasses the norm.
//
// For dweight = Σ gradient · n and dbias = Σ gradient over rows, each workgroup processes every GROUPS-th block of rows
// with the sums of its columns in registers, and writes one line of partial sums. norm_lines adds the lines of both
// parameters in one dispatch; only the parameters' gradients wait for it. Rows too long for registers keep the running
// sums in their line.
//
// If everything is aligned (VECTOR), a thread has runs of four neighbours, and loads and stores each run at once. The
// next row's loads are in flight while this row is reduced across its threads, twice: for the mean, and for everything
// that depends on the mean. Launch one wave: a partial second wave leaves multiprocessors idle. That is two workgroups
// per multiprocessor at eight elements per thread, since the sums carried from row to row take most of the registers.
// Two keep enough bytes in flight.
//
// variant: norm_backward
// variant: norm_lines LINES

#extension GL_EXT_control_flow_attributes : require
#include "vectors.glsl"

#ifdef LINES
// Eight columns per workgroup, whole sectors of 32 bytes. 128 threads share the lines: each has four or five in flight
// at once.
const uint QUADS_A_GROUP = 2, THREADS_PER_ROW = 128, IN_FLIGHT = 4;

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint WEIGHT_DTYPE = 1;
layout(constant_id = 1) const uint BIAS_DTYPE = 1;
layout(constant_id = 2) const uint WIDTH = 1;  // elements per load

layout(push_constant, scalar) uniform Push {
  uvec2 partial_weight, partial_bias, weight, bias;  // workgroups of layer 0 add the former, those of layer 1 the
                                                     // latter
  uint lines, n;
} p;

shared vec4 sums[256];

void main() {
  uint thread = gl_LocalInvocationID.x, row_thread = thread / QUADS_A_GROUP;
  uint group = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
  uint column = (group * QUADS_A_GROUP + thread % QUADS_A_GROUP) * 4, count = column < p.n ? min(4, p.n - column) : 0;
  bool bias = gl_WorkGroupID.z != 0;
  uvec2 from = bias ? p.partial_bias : p.partial_weight;
  vec4 sum = vec4(0.0);
  for (uint first = row_thread; first < p.lines; first += IN_FLIGHT * THREADS_PER_ROW) {
    vec4 line[IN_FLIGHT];
    [[unroll]] for (uint k = 0; k < IN_FLIGHT; ++k) {
      uint i = first + k * THREADS_PER_ROW;
      line[k] = load_vector(from, i * p.n + column, i < p.lines ? count : 0, F32, WIDTH);
    }
    [[unroll]] for (uint k = 0; k < IN_FLIGHT; ++k) sum += line[k];
  }
  sums[thread] = sum;
  barrier();
  for (uint half_threads = THREADS_PER_ROW / 2; half_threads > 0; half_threads /= 2) {
    if (row_thread < half_threads) sums[thread] += sums[thread + half_threads * QUADS_A_GROUP];
    barrier();
  }
  if (row_thread != 0) return;
  sum = sums[thread];
  for (uint c = 0; c < count; ++c) {
    if (bias) store_float(p.bias, column + c, BIAS_DTYPE, sum[c]);
    else store_float(p.weight, column + c, WEIGHT_DTYPE, sum[c]);
  }
}

#else
#include "row_threads.glsl"
#include "row_scale.glsl"

layout(constant_id = 2) const uint RMS = 0;
layout(constant_id = 3) const uint ELEMENTS_PER_THREAD = 4;
layout(constant_id = 4) const uint G_DTYPE = 1;
layout(constant_id = 5) const uint X_DTYPE = 1;
layout(constant_id = 6) const uint W_DTYPE = 1;
layout(constant_id = 7) const uint GIVEN = 1;  // 1: weight, 2: a gradient to add
layout(constant_id = 8) const uint WANTS = 3;  // 1: dweight, 2: dbias, 4: also writes dx as ddelta
layout(constant_id = 9) const uint MORE_DTYPE = 1;
layout(constant_id = 10) const uint DELTA_DTYPE = 1;
layout(constant_id = 11) const uint VECTOR = 0;  // ELEMENTS_PER_THREAD is then a multiple of four

const uint ARRAY = ELEMENTS_PER_THREAD > 0 ? ELEMENTS_PER_THREAD : 1, QUADS = (ARRAY + 3) / 4;
const bool WEIGHT = (WANTS & 1) != 0, BIAS = (WANTS & 2) != 0;

layout(push_constant, scalar) uniform Push {
  uvec2 g, x, w, dx;
  uvec2 partial_weight, partial_bias;  // [groups, n] f32
  uint rows, n, groups;
  uvec2 g_strides, x_strides;
  uint w_stride;
  float eps;
  uvec2 more, more_strides;  // the gradient to add
  uvec2 ddelta;
} p;

vec2 combine_first(vec2 a, vec2 b) { return vec2(a.x + b.x, max(a.y, b.y)); }
ETNA_REDUCE_ROW(row_first, combine_first)

shared vec4 wide_values[256];
shared vec4 wide_groups[16];
vec4 combine_sums(vec4 a, vec4 b) { return a + b; }
ETNA_REDUCE_ROW_OF(vec4, wide_values, wide_groups, row_sums, combine_sums)

// Sums `v` over the workgroup's slots, which have the same columns; the result is valid in every thread of slot 0.
vec4 over_slots(vec4 v, uint row_thread, uint slot) {
  if (SLOTS == 1) return v;
  wide_values[gl_LocalInvocationID.x] = v;
  barrier();
  if (slot == 0) {
    for (uint k = 1; k < SLOTS; ++k) v += wide_values[thread_of(k, row_thread)];
  }
  barrier();
  return v;
}

void main() {
  uint row_thread = this_row_thread(), slot = this_slot(), group = workgroup_index();
  if (group >= p.groups) return;
  float row_x[ARRAY], row_g[ARRAY], row_w[ARRAY], sum_weight[ARRAY], sum_bias[ARRAY];
  vec4 next_x[QUADS], next_g[QUADS];
#define INDEX(k) \
  (VECTOR != 0 ? ((k) / 4 * THREADS_PER_ROW + row_thread) * 4 + (k) % 4 : (k) * THREADS_PER_ROW + row_thread)
#define LOAD_NEXT(at_row)                                                        \
  [[unroll]] for (uint q = 0; q < ELEMENTS_PER_THREAD / 4; ++q) {                \
    uint i = (q * THREADS_PER_ROW + row_thread) * 4;                             \
    bool there = (at_row) < p.rows && i < p.n;                                   \
    next_x[q] = next_g[q] = vec4(0.0);                                           \
    if (there) {                                                                 \
      next_x[q] = load_vector(p.x, (at_row) * p.x_strides.x + i, 4, X_DTYPE, 4); \
      next_g[q] = load_vector(p.g, (at_row) * p.g_strides.x + i, 4, G_DTYPE, 4); \
    }                                                                            \
  }
  if (VECTOR != 0) LOAD_NEXT(group * SLOTS + slot)
  for (uint k = 0; k < ELEMENTS_PER_THREAD; ++k) {  // a thread has the same columns in every row
    uint i = INDEX(k);
    row_w[k] = (GIVEN & 1) != 0 && i < p.n ? load_float(p.w, i * p.w_stride, W_DTYPE) : 1.0;
  }
  for (uint k = 0; k < ARRAY; ++k) sum_weight[k] = sum_bias[k] = 0.0;
  float count = float(p.n);

  for (uint first = group * SLOTS; first < p.rows; first += p.groups * SLOTS) {
    uint row = first + slot;
    uint n = row < p.rows ? p.n : 0, base_x = row * p.x_strides.x, base_g = row * p.g_strides.x;
// Runs body for each element of the row that this thread has; the k-th is element i.
#define EACH(body)                                                            \
    if (VECTOR != 0) {                                                        \
      [[unroll]] for (uint k = 0; k < ELEMENTS_PER_THREAD; ++k) {             \
        uint i = INDEX(k);                                                    \
        if (i < n) body                                                       \
      }                                                                       \
    } else {                                                                  \
      for (uint k = 0, i = row_thread; i < n; ++k, i += THREADS_PER_ROW) body \
    }
#define X(k, i) (ELEMENTS_PER_THREAD > 0 ? row_x[k] : load_float(p.x, base_x + (i) * p.x_strides.y, X_DTYPE))
#define G(k, i) (ELEMENTS_PER_THREAD > 0 ? row_g[k] : load_float(p.g, base_g + (i) * p.g_strides.y, G_DTYPE))
#define NORMED(k, i) (((X(k, i) - mean) * fit - about.y) * scale)
#define SCALED(k, i)                                                               \
  (G(k, i) * (ELEMENTS_PER_THREAD > 0 ? row_w[k]                                   \
              : (GIVEN & 1) != 0      ? load_float(p.w, (i) * p.w_stride, W_DTYPE) \
                                      : 1.0))
    vec4 more[QUADS];
    if (VECTOR != 0) {
      [[unroll]] for (uint q = 0; q < ELEMENTS_PER_THREAD / 4; ++q) {
        [[unroll]] for (uint c = 0; c < 4; ++c) row_x[q * 4 + c] = next_x[q][c], row_g[q * 4 + c] = next_g[q][c];
        uint i = (q * THREADS_PER_ROW + row_thread) * 4;
        more[q] = vec4(0.0);
        if ((GIVEN & 2) != 0 && i < n) more[q] = load_vector(p.more, row * p.more_strides.x + i, 4, MORE_DTYPE, 4);
      }
      LOAD_NEXT(row + p.groups * SLOTS)
    } else if (ELEMENTS_PER_THREAD > 0) {
      for (uint k = 0; k < ELEMENTS_PER_THREAD; ++k) {
        uint i = k * THREADS_PER_ROW + row_thread;
        row_x[k] = i < n ? load_float(p.x, base_x + i * p.x_strides.y, X_DTYPE) : 0.0;
        row_g[k] = i < n ? load_float(p.g, base_g + i * p.g_strides.y, G_DTYPE) : 0.0;
      }
    }
    float mean = 0.0, fit = 1.0;
    if (RMS == 0 || shows_small(p.eps)) {
      vec2 first_pass = vec2(0.0);  // Σ x, and the largest |x|
      EACH({
        float x = X(k, i);
        first_pass = vec2(first_pass.x + x * kSumDown, max(first_pass.y, abs(x)));
      })
      first_pass = row_first(first_pass);
      fit = row_scale(first_pass.y, p.eps);
      if (RMS == 0) mean = first_pass.x / count * kSumUp;
    }
    // With d = x - mean: the means of d², d (the rounding error of the mean), s · d and s; for rms_norm the second and
    // the last are the first and the third with d · 2^-80.
    vec4 about = vec4(0.0);
    EACH({
      float d = (X(k, i) - mean) * fit;
      float less = d * kDown;
      float s = SCALED(k, i);
      about += RMS != 0 ? vec4(d * d, less * less, s * d, s * less) : vec4(d * d, d, s * d, s);
    })
    about = row_sums(about) / count;
    if (RMS != 0) {
      if (!(about.x < kLargeSquares)) about.xz = about.yw, fit *= kDown;
      about.yw = vec2(0.0);
    }
    float scale = 1.0 / sqrt(about.x - about.y * about.y + p.eps * fit * fit), back = scale * fit;
    vec2 along = vec2((about.z - about.y * about.w) * scale, about.w);  // the means of s · n and s
    if (VECTOR != 0) {
      [[unroll]] for (uint q = 0; q < ELEMENTS_PER_THREAD / 4; ++q) {
        uint i = (q * THREADS_PER_ROW + row_thread) * 4;
        if (i >= n) continue;
        vec4 dx;
        [[unroll]] for (uint c = 0; c < 4; ++c) {
          uint k = q * 4 + c;
          float normed = NORMED(k, i + c), g = G(k, i + c);
          dx[c] = (SCALED(k, i + c) - along.y - normed * along.x) * back + more[q][c];
          if (WEIGHT) sum_weight[k] += g * normed;
          if (BIAS) sum_bias[k] += g;
        }
        store_vector(p.dx, row * p.n + i, 4, X_DTYPE, 4, dx);
        if ((WANTS & 4) != 0) store_vector(p.ddelta, row * p.n + i, 4, DELTA_DTYPE, 4, dx);
      }
      continue;
    }
    for (uint k = 0, i = row_thread; i < n; ++k, i += THREADS_PER_ROW) {
      float normed = NORMED(k, i), g = G(k, i);
      float dx = (SCALED(k, i) - along.y - normed * along.x) * back;
      if ((GIVEN & 2) != 0) dx += load_float(p.more, row * p.more_strides.x + i * p.more_strides.y, MORE_DTYPE);
      store_float(p.dx, row * p.n + i, X_DTYPE, dx);
      if ((WANTS & 4) != 0) store_float(p.ddelta, row * p.n + i, DELTA_DTYPE, dx);
      if (ELEMENTS_PER_THREAD > 0) {
        if (WEIGHT) sum_weight[k] += g * normed;
        if (BIAS) sum_bias[k] += g;
      } else {
        uint at = group * p.n + i;
        bool opens = first == group * SLOTS;
        if (WEIGHT) BufferF32(p.partial_weight).v[at] = (opens ? 0.0 : BufferF32(p.partial_weight).v[at]) + g * normed;
        if (BIAS) BufferF32(p.partial_bias).v[at] = (opens ? 0.0 : BufferF32(p.partial_bias).v[at]) + g;
      }
    }
  }

  if (ELEMENTS_PER_THREAD == 0) return;
  [[unroll]] for (uint q = 0; q < ELEMENTS_PER_THREAD / 4; ++q) {
    vec4 total_weight = vec4(0.0), total_bias = vec4(0.0);
    [[unroll]] for (uint c = 0; c < 4; ++c) {
      total_weight[c] = sum_weight[q * 4 + c];
      total_bias[c] = sum_bias[q * 4 + c];
    }
    if (WEIGHT) total_weight = over_slots(total_weight, row_thread, slot);
    if (BIAS) total_bias = over_slots(total_bias, row_thread, slot);
#ifdef ETNA_WEBGPU
    if (slot == 0)  // no thread may reach the next barrier alone
#else
    if (slot != 0) continue;
#endif
    if (VECTOR != 0) {
      uint i = (q * THREADS_PER_ROW + row_thread) * 4, count = i < p.n ? 4 : 0;
      if (WEIGHT) store_vector(p.partial_weight, group * p.n + i, count, F32, 4, total_weight);
      if (BIAS) store_vector(p.partial_bias, group * p.n + i, count, F32, 4, total_bias);
    } else {
      [[unroll]] for (uint c = 0; c < 4; ++c) {
        uint i = (q * 4 + c) * THREADS_PER_ROW + row_thread;
        if (i >= p.n) continue;
        if (WEIGHT) BufferF32(p.partial_weight).v[group * p.n + i] = total_weight[c];
        if (BIAS) BufferF32(p.partial_bias).v[group * p.n + i] = total_bias[c];
      }
    }
  }
}
#endif
