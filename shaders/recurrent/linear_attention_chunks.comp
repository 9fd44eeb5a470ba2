#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
// What gated_linear_attention computes of each chunk of 64 steps by itself, before chunked_linear_attention goes from
// chunk to chunk: a workgroup has a chunk of a head. With G the sums of decays since the chunk's first step, D their
// exponentials between steps and A = β · k·kᵀ · D below the diagonal, the results are q · exp(G), k by what decays
// until the last step, m = q·kᵀ · D and, by the delta rule, T · β · [k · exp(G) | v] with T = (1 + A)⁻¹; else v. T is
// found by blocks of 16: those on the diagonal by substitution, the others by products. Bound by arithmetic in f32.
//
// variant: linear_attention_chunks

#include "delta_gates.glsl"
#include "vectors.glsl"

const uint ROWS = 64, THREADS = 256, BLOCK = 16;
layout(local_size_x = THREADS) in;
layout(constant_id = 0) const uint DTYPE = 1;  // of q, k and v
layout(constant_id = 1) const uint KEY = 128;  // elements of a key
layout(constant_id = 2) const uint DELTA = 1;  // whether there is beta
layout(constant_id = 3) const uint STATE = 0;  // whether there is one: then not all steps need to count
layout(constant_id = 4) const uint COUNTS = 0;
layout(constant_id = 5) const uint NORMALIZE = 0;  // as in gated_linear_attention.comp
layout(constant_id = 6) const uint TILED = 0;
layout(constant_id = 7) const uint GATES = 0;
layout(constant_id = 8) const uint HEADS = 1;
layout(constant_id = 9) const uint KEY_HEADS = 1;
layout(constant_id = 10) const uint WIDTH = 1;  // of loads of q, k and v

layout(push_constant, scalar) uniform Push {
  uvec2 q, k, v, g, beta, step_bias, log_decay, positions, counts;
  uvec2 y;  // q, k, m, w, u and decay of all chunks, one behind the other
  uint steps, value, chunks;
  uint q_pitch, k_pitch, v_pitch;  // elements between the steps
} p;

const uint SLICE = 16, STAGED_ROW = SLICE / 4 + 1, RIGHT = 32, RIGHT_ROW = RIGHT / 4 + 1, LINE = ROWS + 1;
shared vec4 staged[2 * ROWS * STAGED_ROW];                // rows of q and of k, or of what T is multiplied by
shared float a[ROWS * LINE], part[BLOCK * (ROWS - BLOCK)];
shared float decays[ROWS], betas[ROWS], q_by[ROWS], k_by[ROWS];
shared vec2 sums[ROWS];  // of decays, and what rounding left of them

uint thread = gl_LocalInvocationID.x;
uint head = gl_WorkGroupID.y, sequence = gl_WorkGroupID.z, first = gl_WorkGroupID.x * ROWS;
uint key_at = (TILED != 0 ? head % KEY_HEADS : head / (HEADS / KEY_HEADS)) * KEY;
uint counted;

uint counted_steps() {
  if (STATE == 0) return p.steps;
  if (BufferI32(p.positions).v[sequence] < 0) return 0u;
  return COUNTS != 0 ? uint(clamp(BufferI32(p.counts).v[sequence], 0, int(p.steps))) : p.steps;
}

// Elements at to at + 3 of a row of `size`; 0 in rows of steps that do not count.
vec4 four(uvec2 address, uint pitch, uint head_at, uint r, uint at, uint size) {
  uint step = first + r;
  if (step >= counted || at >= size) return vec4(0.0);
  return load_vector(address, (sequence * p.steps + step) * pitch + head_at + at, min(size - at, 4u), DTYPE, WIDTH);
}
vec4 query(uint r, uint at) { return four(p.q, p.q_pitch, key_at, r, at, KEY); }
vec4 key(uint r, uint at) { return four(p.k, p.k_pitch, key_at, r, at, KEY); }

float decay_between(uint later, uint earlier) {
  vec2 difference = sums[later] - sums[earlier];
  return exp(difference.x + difference.y);
}
float decay_since_first(uint r) { return exp(sums[r].x + sums[r].y); }

void read_gates() {
  if (thread < ROWS) {
    uint step = first + thread, each = (sequence * p.steps + step) * HEADS + head;
    float decay = 0.0, beta = 0.0;
    if (step < counted) {
      decay = BufferF32(p.g).v[each];
      if (DELTA != 0) beta = BufferF32(p.beta).v[each];
      if (GATES != 0) {
        vec2 gates = delta_gates(decay, beta, BufferF32(p.step_bias).v[head], BufferF32(p.log_decay).v[head]);
        decay = gates.x;
        beta = gates.y;
      }
    }
    decays[thread] = decay < -1e4 ? -1e4 : decay;  // 0 either way, and differences of sums stay finite
    betas[thread] = beta;
  }
  barrier();
  if (thread < ROWS) {
    precise vec2 sum = vec2(0.0);
    for (uint i = 0; i <= thread; ++i) {
      precise float next = sum.x + decays[i], of_sum = next - decays[i];
      sum = vec2(next, sum.y + ((sum.x - of_sum) + (decays[i] - (next - of_sum))));
    }
    sums[thread] = sum;
  }
  barrier();
}

void read_lengths() {
  if (NORMALIZE != 0) {
    uint r = thread / 4;
    vec2 squares = vec2(0.0);
    for (uint at = thread % 4 * 4; at < KEY; at += 16) {
      vec4 x = query(r, at), y = key(r, at);
      squares += vec2(dot(x, x), dot(y, y));
    }
    part[thread] = squares.x;
    part[THREADS + thread] = squares.y;
  }
  barrier();
  if (thread < ROWS) {
    vec2 by = vec2(1.0);
    if (NORMALIZE != 0) {
      vec2 squares = vec2(0.0);
      for (uint i = 0; i < 4; ++i) squares += vec2(part[4 * thread + i], part[THREADS + 4 * thread + i]);
      by = inversesqrt(squares + 1e-6) * vec2(inversesqrt(float(KEY)), 1.0);
    }
    q_by[thread] = by.x;
    k_by[thread] = by.y;
  }
  barrier();
}

// Writes m, and A to `a`.
void multiply_rows(uint m_at) {
  uint row = thread / 16, column = thread % 16;
  float of_q[16], of_k[16];
  [[unroll]] for (uint i = 0; i < 16; ++i) of_q[i] = of_k[i] = 0.0;
  for (uint at = 0; at < KEY; at += SLICE) {
    barrier();
    for (uint i = thread; i < ROWS * (SLICE / 4); i += THREADS) {
      uint r = i / (SLICE / 4), of_row = i % (SLICE / 4);
      staged[r * STAGED_ROW + of_row] = query(r, at + of_row * 4);
      staged[(ROWS + r) * STAGED_ROW + of_row] = key(r, at + of_row * 4);
    }
    barrier();
    for (uint i = 0; i < SLICE / 4; ++i) {
      vec4 x[4], y[4];
      [[unroll]] for (uint r = 0; r < 4; ++r) {
        x[r] = staged[(16 * r + row) * STAGED_ROW + i];
        y[r] = staged[(ROWS + 16 * r + row) * STAGED_ROW + i];
      }
      [[unroll]] for (uint c = 0; c < 4; ++c) {
        vec4 z = staged[(ROWS + 16 * c + column) * STAGED_ROW + i];
        [[unroll]] for (uint r = 0; r < 4; ++r) {
          of_q[4 * r + c] += dot(x[r], z);
          if (DELTA != 0) of_k[4 * r + c] += dot(y[r], z);
        }
      }
    }
  }
  [[unroll]] for (uint i = 0; i < 16; ++i) {
    uint r = 16 * (i / 4) + row, c = 16 * (i % 4) + column;
    float by = c <= r ? decay_between(r, c) * k_by[c] : 0.0;
    BufferF32(p.y).v[m_at + r * ROWS + c] = c <= r ? of_q[i] * q_by[r] * by : 0.0;
    if (DELTA != 0) a[r * LINE + c] = c < r ? of_k[i] * k_by[r] * by * betas[r] : 0.0;
  }
  barrier();
}

// T in place of A.
void invert() {
  float x[BLOCK];
  uint block = thread / BLOCK * BLOCK, column = thread % BLOCK;
  if (thread < ROWS) {
    [[unroll]] for (uint i = 0; i < BLOCK; ++i) {
      x[i] = i == column ? 1.0 : 0.0;
      [[unroll]] for (uint j = 0; j < i; ++j) x[i] -= a[(block + i) * LINE + block + j] * x[j];
    }
  }
  barrier();
  if (thread < ROWS) {
    [[unroll]] for (uint i = 0; i < BLOCK; ++i) a[(block + i) * LINE + block + column] = x[i];
  }
  barrier();
  for (uint below = BLOCK; below < ROWS; below += BLOCK) {
    for (uint i = thread; i < BLOCK * below; i += THREADS) {
      uint r = i / below, c = i % below;
      float sum = 0.0;
      for (uint j = 0; j < below; ++j) sum += a[(below + r) * LINE + j] * a[j * LINE + c];
      part[i] = sum;
    }
    barrier();
    for (uint i = thread; i < BLOCK * below; i += THREADS) {
      uint r = i / below, c = i % below;
      float sum = 0.0;
      for (uint j = 0; j <= r; ++j) sum += a[(below + r) * LINE + below + j] * part[j * below + c];
      a[(below + r) * LINE + c] = -sum;
    }
    barrier();
  }
}

// T times a column of slices of rows, which are those of k (by what multiplies them) or of v.
void multiply_right(bool of_keys, uint size, uint y_at) {
  uint row = thread / 8, group = thread % 8;
  for (uint at = 0; at < size; at += RIGHT) {
    barrier();
    for (uint i = thread; i < ROWS * (RIGHT / 4); i += THREADS) {
      uint r = i / (RIGHT / 4), of_row = at + i % (RIGHT / 4) * 4;
      vec4 x = of_keys ? key(r, of_row) * (k_by[r] * decay_since_first(r))
                       : four(p.v, p.v_pitch, head * p.value, r, of_row, p.value);
      staged[r * RIGHT_ROW + i % (RIGHT / 4)] = x * betas[r];
    }
    barrier();
    vec4 upper = vec4(0.0), lower = vec4(0.0);
    for (uint i = 0; i < ROWS / 2; ++i) {
      vec4 x = staged[i * RIGHT_ROW + group];
      upper += a[row * LINE + i] * x;
      lower += a[(row + ROWS / 2) * LINE + i] * x;
    }
    for (uint i = ROWS / 2; i < ROWS; ++i) lower += a[(row + ROWS / 2) * LINE + i] * staged[i * RIGHT_ROW + group];
    uint of_row = at + 4 * group;
    if (of_row < size) {
      uint count = min(size - of_row, 4u);
      store_vector(p.y, y_at + row * size + of_row, count, F32, 1, upper);
      store_vector(p.y, y_at + (row + ROWS / 2) * size + of_row, count, F32, 1, lower);
    }
  }
}

void main() {
  uint all = gl_NumWorkGroups.z * HEADS * p.chunks, chunk = (sequence * HEADS + head) * p.chunks + gl_WorkGroupID.x;
  uint keys = ROWS * KEY, values = ROWS * p.value, k_at = all * keys, m_at = 2 * k_at, w_at = m_at + all * ROWS * ROWS;
  uint u_at = w_at + (DELTA != 0 ? all * keys : 0), decay_at = u_at + all * values;
  counted = counted_steps();
  read_gates();
  read_lengths();
  multiply_rows(m_at + chunk * ROWS * ROWS);
  if (DELTA != 0) {
    invert();
    multiply_right(true, KEY, w_at + chunk * keys);
    multiply_right(false, p.value, u_at + chunk * values);
  } else {
    for (uint i = thread; i < ROWS * ((p.value + 3) / 4); i += THREADS) {
      uint r = i / ((p.value + 3) / 4), at = i % ((p.value + 3) / 4) * 4;
      vec4 x = four(p.v, p.v_pitch, head * p.value, r, at, p.value);
      store_vector(p.y, u_at + chunk * values + r * p.value + at, min(p.value - at, 4u), F32, 1, x);
    }
  }
  for (uint i = thread; i < ROWS * ((KEY + 3) / 4); i += THREADS) {
    uint r = i / ((KEY + 3) / 4), at = i % ((KEY + 3) / 4) * 4, count = min(KEY - at, 4u);
    uint to = chunk * keys + r * KEY + at;
    store_vector(p.y, to, count, F32, 1, query(r, at) * (q_by[r] * decay_since_first(r)));
    store_vector(p.y, k_at + to, count, F32, 1, key(r, at) * (k_by[r] * decay_between(ROWS - 1, r)));
  }
  if (thread == 0) BufferF32(p.y).v[decay_at + chunk] = decay_since_first(ROWS - 1);
}
