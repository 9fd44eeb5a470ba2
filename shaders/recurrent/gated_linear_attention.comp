#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
// The gated delta rule and the scan of Mamba-2: a state of each head, [key, value], that decays, takes up k · vᵀ and is
// asked by q. While a model generates it is bytes-bound: the state is read once and written once. Along a prompt it is
// bound by the latency of a step. Columns of the state do not depend on each other: a workgroup owns 16 of a head, and
// eight threads share a column, whose elements stay in registers. What k finds and what q asks are dot products over
// the column before this step's write; k·q is what the write adds to the answer. So a step takes one barrier.
//
// variant: gated_linear_attention

#include "index.glsl"

const uint COLUMNS = 16, PARTS = 8, THREADS = COLUMNS * PARTS;
layout(local_size_x = THREADS) in;
layout(constant_id = 0) const uint DTYPE = 1;  // of q, k, v and y
layout(constant_id = 1) const uint ROWS = 16;  // elements of a column that a thread owns
layout(constant_id = 2) const uint DELTA = 1;  // whether there is beta
layout(constant_id = 3) const uint STATE = 0;  // whether there is one
layout(constant_id = 4) const uint COUNTS = 0;

layout(push_constant, scalar) uniform Push {
  uvec2 q, k, v, g, beta, state, rows, positions, counts, index_errors, y;
  uint steps, heads, shared_by, key, value;  // shared_by: heads that have the same k
  uint q_pitch, k_pitch, v_pitch, states;    // pitch: elements between the steps
} p;

shared float partial[2][3][THREADS];

uint counted_steps(uint sequence) {
  if (STATE == 0) return p.steps;
  if (BufferI32(p.positions).v[sequence] < 0) return 0u;
  return COUNTS != 0 ? uint(clamp(BufferI32(p.counts).v[sequence], 0, int(p.steps))) : p.steps;
}

float total(uint slot, uint what, uint column) {
  float sum = 0.0;
  [[unroll]] for (uint i = 0; i < PARTS; ++i) sum += partial[slot][what][i * COLUMNS + column];
  return sum;
}

void main() {
  uint thread = gl_LocalInvocationID.x, column = thread % COLUMNS, part = thread / COLUMNS;
  uint head = gl_WorkGroupID.y, sequence = gl_WorkGroupID.z, value = gl_WorkGroupID.x * COLUMNS + column;
  uint counted = ETNA_UNIFORM(counted_steps(sequence));
  bool inside = value < p.value;
  uint first = part * ROWS, key_at = head / p.shared_by * p.key;
  uint at = 0;
  float column_of_state[ROWS];
  [[unroll]] for (uint r = 0; r < ROWS; ++r) column_of_state[r] = 0.0;
  if (STATE != 0 && counted > 0) {
    uvec2 errors = thread == 0 && head == 0 ? p.index_errors : uvec2(0);
    at = load_index(p.rows, sequence, I32, p.states, errors) * p.heads + head;
    if (BufferI32(p.positions).v[sequence] > 0 && inside) {
      for (uint r = 0; r < ROWS && first + r < p.key; ++r)
        column_of_state[r] = BufferF32(p.state).v[(at * p.key + first + r) * p.value + value];
    }
  }
  for (uint t = 0; t < counted; ++t) {
    uint step = sequence * p.steps + t, slot = t % 2, each = step * p.heads + head;
    float decay = exp(BufferF32(p.g).v[each]), keys[ROWS], found = 0.0, asked = 0.0, own = 0.0;
    [[unroll]] for (uint r = 0; r < ROWS; ++r) {
      keys[r] = 0.0;
      if (first + r < p.key) {
        keys[r] = load_float(p.k, step * p.k_pitch + key_at + first + r, DTYPE);
        float query = load_float(p.q, step * p.q_pitch + key_at + first + r, DTYPE);
        column_of_state[r] *= decay;
        found += column_of_state[r] * keys[r];
        asked += column_of_state[r] * query;
        own += keys[r] * query;
      }
    }
    partial[slot][0][thread] = found;
    partial[slot][1][thread] = asked;
    partial[slot][2][thread] = own;
    barrier();
    float written = inside ? load_float(p.v, step * p.v_pitch + head * p.value + value, DTYPE) : 0.0;
    if (DELTA != 0) written = (written - total(slot, 0, column)) * BufferF32(p.beta).v[each];
    [[unroll]] for (uint r = 0; r < ROWS; ++r) column_of_state[r] += keys[r] * written;
    if (part == 0 && inside) {
      float y = total(slot, 1, column) + total(slot, 2, column) * written;
      store_float(p.y, each * p.value + value, DTYPE, y);
    }
  }
  if (!inside) return;
  if (part == 0) {
    for (uint t = counted; t < p.steps; ++t)
      store_float(p.y, ((sequence * p.steps + t) * p.heads + head) * p.value + value, DTYPE, 0.0);
  }
  if (STATE == 0 || counted == 0) return;
  for (uint r = 0; r < ROWS && first + r < p.key; ++r)
    BufferF32(p.state).v[(at * p.key + first + r) * p.value + value] = column_of_state[r];
}
