#version 460
#extension GL_GOOGLE_include_directive : require
// softmax, log_softmax and their gradients along one dimension. Bytes-bound: one read of each input, one write. Rows of
// up to THREADS_PER_ROW x ELEMENTS_PER_THREAD elements are kept in registers. Longer ones are read twice: first with a
// running maximum that rescales the sum of exponentials (Milakov & Gimelshein 2018), then mostly from the cache. Short
// rows share a workgroup.
//
// If everything is aligned (VECTOR), a thread has runs of four neighbours, and loads and stores each run at once. All
// loads of a row are in flight before the first is used. So more elements per thread (up to 32, with 64 threads per
// row) keep more bytes in flight, and a workgroup reduces four rows at the cost of one.
//
// variant: softmax

#extension GL_EXT_control_flow_attributes : require
#include "vectors.glsl"
#include "row_threads.glsl"
#include "math.glsl"

layout(constant_id = 2) const uint OP = 0;
layout(constant_id = 3) const uint ELEMENTS_PER_THREAD = 4;  // elements per thread; 0: rows are too long for registers
layout(constant_id = 4) const uint A_DTYPE = 1;
layout(constant_id = 5) const uint B_DTYPE = 1;
layout(constant_id = 6) const uint Y_DTYPE = 1;
layout(constant_id = 7) const uint VECTOR = 0;  // ELEMENTS_PER_THREAD is then a multiple of four

const uint SOFTMAX = 0, LOG_SOFTMAX = 1, SOFTMAX_BACKWARD = 2, LOG_SOFTMAX_BACKWARD = 3;
const bool BACKWARD = OP >= SOFTMAX_BACKWARD;
const uint ARRAY = ELEMENTS_PER_THREAD > 0 ? ELEMENTS_PER_THREAD : 1, QUADS = (ARRAY + 3) / 4;

// a: x, or the gradient of y; b: y of the forward pass
layout(push_constant, scalar) uniform Push {
  uvec2 a, b, y;
  uint rows, n, inner;  // rows are counted over the dimensions before (outer) and after (inner) the reduced one
  uvec3 a_strides, b_strides, y_strides;  // outer, inner, along
} p;

// Σ exp relative to the maximum: x is the maximum, y the sum, 0 if all elements so far are -inf.
vec2 combine_exponentials(vec2 a, vec2 b) {
  float largest = m_max(a.x, b.x);
  float sum = 0.0;
  if (a.y != 0.0) sum += a.y * exp(a.x - largest);
  if (b.y != 0.0) sum += b.y * exp(b.x - largest);
  return vec2(largest, sum);
}
vec2 combine_max(vec2 a, vec2 b) { return vec2(m_max(a.x, b.x), 0.0); }
vec2 combine_sum(vec2 a, vec2 b) { return a + b; }
ETNA_REDUCE_ROW(row_exponentials, combine_exponentials)
ETNA_REDUCE_ROW(row_max, combine_max)
ETNA_REDUCE_ROW(row_sum, combine_sum)

uint base_of(uvec3 strides, uint row) { return row / p.inner * strides.x + row % p.inner * strides.y; }

float term(float a, float b) { return OP == SOFTMAX_BACKWARD ? a * b : a; }
float gradient(float a, float b, float total) { return OP == SOFTMAX_BACKWARD ? b * (a - total) : a - exp(b) * total; }

void main() {
  uint group = workgroup_index(), row_thread = this_row_thread();
  uint row = group * SLOTS + this_slot();
  uint n = row < p.rows ? p.n : 0;
  uint base_a = base_of(p.a_strides, row), base_b = base_of(p.b_strides, row), base_y = base_of(p.y_strides, row);
  float elements[ARRAY], elements_b[ARRAY];
  float lowest = uintBitsToFloat(0xff800000u);

// The k-th element of this thread.
#define INDEX(k) \
  (VECTOR != 0 ? ((k) / 4 * THREADS_PER_ROW + row_thread) * 4 + (k) % 4 : (k) * THREADS_PER_ROW + row_thread)
  if (VECTOR != 0) {
    vec4 a[QUADS], b[QUADS];
    [[unroll]] for (uint q = 0; q < ELEMENTS_PER_THREAD / 4; ++q) {
      uint i = INDEX(4 * q);
      a[q] = vec4(BACKWARD ? 0.0 : lowest);
      if (i < n) a[q] = load_vector(p.a, base_a + i, 4, A_DTYPE, 4);
      if (BACKWARD) b[q] = load_vector(p.b, base_b + i, i < n ? 4 : 0, B_DTYPE, 4);
    }
    [[unroll]] for (uint k = 0; k < ELEMENTS_PER_THREAD; ++k) {
      elements[k] = a[k / 4][k % 4];
      if (BACKWARD) elements_b[k] = b[k / 4][k % 4];
    }
  } else if (ELEMENTS_PER_THREAD > 0) {
    for (uint k = 0; k < ELEMENTS_PER_THREAD; ++k) {
      uint i = k * THREADS_PER_ROW + row_thread;
      elements[k] = i < n ? load_float(p.a, base_a + i * p.a_strides.z, A_DTYPE) : BACKWARD ? 0.0 : lowest;
      if (BACKWARD) elements_b[k] = i < n ? load_float(p.b, base_b + i * p.b_strides.z, B_DTYPE) : 0.0;
    }
  }

  if (BACKWARD) {
    float total = 0.0;
    if (ELEMENTS_PER_THREAD > 0) {
      [[unroll]] for (uint k = 0; k < ELEMENTS_PER_THREAD; ++k) total += term(elements[k], elements_b[k]);
    } else {
      for (uint i = row_thread; i < n; i += THREADS_PER_ROW) {
        float a = load_float(p.a, base_a + i * p.a_strides.z, A_DTYPE);
        total += OP == SOFTMAX_BACKWARD ? a * load_float(p.b, base_b + i * p.b_strides.z, B_DTYPE) : a;
      }
    }
    total = row_sum(vec2(total, 0.0)).x;
    if (VECTOR != 0) {
      [[unroll]] for (uint q = 0; q < ELEMENTS_PER_THREAD / 4; ++q) {
        uint i = INDEX(4 * q);
        vec4 y;
        [[unroll]] for (uint c = 0; c < 4; ++c) y[c] = gradient(elements[4 * q + c], elements_b[4 * q + c], total);
        store_vector(p.y, base_y + i, i < n ? 4 : 0, Y_DTYPE, 4, y);
      }
    } else if (ELEMENTS_PER_THREAD > 0) {
      for (uint k = 0; k < ELEMENTS_PER_THREAD; ++k) {
        uint i = k * THREADS_PER_ROW + row_thread;
        if (i < n) store_float(p.y, base_y + i * p.y_strides.z, Y_DTYPE, gradient(elements[k], elements_b[k], total));
      }
    } else {
      for (uint i = row_thread; i < n; i += THREADS_PER_ROW) {
        float a = load_float(p.a, base_a + i * p.a_strides.z, A_DTYPE);
        float b = load_float(p.b, base_b + i * p.b_strides.z, B_DTYPE);
        store_float(p.y, base_y + i * p.y_strides.z, Y_DTYPE, gradient(a, b, total));
      }
    }
    return;
  }

  vec2 state = vec2(lowest, 0.0);
  if (ELEMENTS_PER_THREAD > 0) {
    [[unroll]] for (uint k = 0; k < ELEMENTS_PER_THREAD; ++k) state.x = m_max(state.x, elements[k]);
    state.x = row_max(state).x;
    [[unroll]] for (uint k = 0; k < ELEMENTS_PER_THREAD; ++k) {
      if (INDEX(k) >= n) continue;
      float e = exp(elements[k] - state.x);
      if (OP == SOFTMAX) elements[k] = e;
      state.y += e;
    }
    state.y = row_sum(vec2(state.y, 0.0)).x;
  } else {
    for (uint first = row_thread; first < n; first += 4 * THREADS_PER_ROW) {
      float x[4];
      float largest = state.x;
      for (uint k = 0; k < 4; ++k) {
        uint i = first + k * THREADS_PER_ROW;
        x[k] = i < n ? load_float(p.a, base_a + i * p.a_strides.z, A_DTYPE) : lowest;
        largest = m_max(largest, x[k]);
      }
      if (largest == lowest) continue;
      float sum = state.y != 0.0 ? state.y * exp(state.x - largest) : 0.0;
      for (uint k = 0; k < 4; ++k) {
        if (first + k * THREADS_PER_ROW < n) sum += exp(x[k] - largest);
      }
      state = vec2(largest, sum);
    }
    state = row_exponentials(state);
  }

  float scale = 1.0 / state.y, log_sum = log(state.y);
  if (VECTOR != 0) {
    [[unroll]] for (uint q = 0; q < ELEMENTS_PER_THREAD / 4; ++q) {
      uint i = INDEX(4 * q);
      vec4 y;
      [[unroll]] for (uint c = 0; c < 4; ++c) {
        float x = elements[4 * q + c];
        y[c] = OP == SOFTMAX ? x * scale : (x - state.x) - log_sum;
      }
      store_vector(p.y, base_y + i, i < n ? 4 : 0, Y_DTYPE, 4, y);
    }
  } else if (ELEMENTS_PER_THREAD > 0) {
    for (uint k = 0; k < ELEMENTS_PER_THREAD; ++k) {
      uint i = k * THREADS_PER_ROW + row_thread;
      if (i < n)
        store_float(p.y, base_y + i * p.y_strides.z, Y_DTYPE,
                    OP == SOFTMAX ? elements[k] * scale : (elements[k] - state.x) - log_sum);
    }
  } else {
    for (uint i = row_thread; i < n; i += THREADS_PER_ROW) {
      float x = load_float(p.a, base_a + i * p.a_strides.z, A_DTYPE) - state.x;
      store_float(p.y, base_y + i * p.y_strides.z, Y_DTYPE, OP == SOFTMAX ? exp(x) * scale : x - log_sum);
    }
  }
}
