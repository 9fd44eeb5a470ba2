#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
// The gated delta rule and the scan of Mamba-2: a state of each head, [key, value], that decays, takes up k · vᵀ and is
// asked by q. While a model generates it is bytes-bound: the state is read once and written once. Along a prompt it is
// bound by the latency of a step. Columns of the state do not depend on each other: a workgroup owns 16 of a head, and
// eight threads share a column, whose elements stay in registers. What k finds and what q asks are dot products over
// the column before this step's write; k·q is what the write adds to the answer. So a step takes one barrier.
// With TAPS, a causal convolution of a single step is in front: each workgroup convolves the channels that it needs.
// One of those that need a channel puts its input into the state, at a place that none of them reads.
//
// variant: gated_linear_attention

#include "delta_gates.glsl"
#include "index.glsl"

const uint COLUMNS = 16, PARTS = 8, THREADS = COLUMNS * PARTS;
layout(local_size_x = THREADS) in;
layout(constant_id = 0) const uint DTYPE = 1;  // of q, k, v and y
layout(constant_id = 1) const uint KEY = 128;  // elements of a column
layout(constant_id = 2) const uint DELTA = 1;  // whether there is beta
layout(constant_id = 3) const uint STATE = 0;  // whether there is one
layout(constant_id = 4) const uint COUNTS = 0;
layout(constant_id = 5) const uint NORMALIZE = 0;  // q and k are divided by their lengths, q by √KEY as well
layout(constant_id = 6) const uint TILED = 0;      // head h has the key h % KEY_HEADS
layout(constant_id = 7) const uint GATES = 0;      // g and beta are what the gates are made of
layout(constant_id = 8) const uint HEADS = 1;
layout(constant_id = 9) const uint KEY_HEADS = 1;
layout(constant_id = 10) const uint UPDATES = 0;  // whether the state becomes that behind the last step
layout(constant_id = 11) const uint TAPS = 0;  // q is what is convolved, k the weight, v the convolution's state
const uint ROWS = KEY == 0 ? 1 : (KEY + PARTS - 1) / PARTS;  // elements of a column that a thread owns

layout(push_constant, scalar) uniform Push {
  uvec2 q, k, v, g, beta, step_bias, log_decay, state, rows, positions, counts, index_errors, y;
  uint steps, value;
  uint q_pitch, k_pitch, v_pitch, states;  // pitch: elements between the steps
} p;

shared float partial[2][5][THREADS];
shared float convolved[TAPS != 0 ? 2 * KEY + COLUMNS : 1];  // q, k and v of a step

uint counted_steps(uint sequence, int position) {
  if (STATE == 0) return p.steps;
  if (position < 0) return 0u;
  return COUNTS != 0 ? uint(clamp(BufferI32(p.counts).v[sequence], 0, int(p.steps))) : p.steps;
}

float total(uint slot, uint what, uint column) {
  float sum = 0.0;
  [[unroll]] for (uint i = 0; i < PARTS; ++i) sum += partial[slot][what][i * COLUMNS + column];
  return sum;
}

// @param keeps whether the channel's input becomes part of the state
float convolve(uint sequence, uint state, int position, uint channel, bool keeps) {
  const uint places = max(1u, TAPS);
  uint channels = p.k_pitch, first = state * TAPS * channels + channel;
  float now = load_float(p.q, sequence * p.q_pitch + channel, DTYPE), sum = 0.0;
  [[unroll]] for (uint tap = 0; tap < TAPS; ++tap) {
    int past = position + int(tap) - int(TAPS - 1);
    float x = tap + 1 == TAPS ? now : 0.0;
    if (tap + 1 < TAPS && past >= 0) x = BufferF32(p.v).v[first + uint(past) % places * channels];
    sum += BufferF32(p.k).v[channel * TAPS + tap] * x;
  }
  if (keeps) BufferF32(p.v).v[first + uint(position) % places * channels] = now;
  return sum / (1.0 + exp(-sum));
}

// Decay, as a logarithm, and beta.
vec2 load_gates(uint each, uint head) {
  vec2 gates = vec2(BufferF32(p.g).v[each], DELTA != 0 ? BufferF32(p.beta).v[each] : 1.0);
  if (GATES == 0) return gates;
  return delta_gates(gates.x, gates.y, BufferF32(p.step_bias).v[head], BufferF32(p.log_decay).v[head]);
}

void main() {
  uint thread = gl_LocalInvocationID.x, column = thread % COLUMNS, part = thread / COLUMNS;
  uint head = gl_WorkGroupID.y, sequence = gl_WorkGroupID.z, value = gl_WorkGroupID.x * COLUMNS + column;
  // A step of one row waits for memory: the state's place is loaded beside what tells whether it is read.
  uvec2 place = STATE != 0 ? load_index_u32s(p.rows, sequence, I32) : uvec2(0);
  int position = STATE != 0 ? BufferI32(p.positions).v[sequence] : 0;
  uint counted = ETNA_UNIFORM(counted_steps(sequence, position));
  bool inside = value < p.value;
  uint first = part * ROWS, key_at = (TILED != 0 ? head % KEY_HEADS : head / (HEADS / KEY_HEADS)) * KEY;
  uint own = 0, at = 0;
  float column_of_state[ROWS];
  [[unroll]] for (uint r = 0; r < ROWS; ++r) column_of_state[r] = 0.0;
  if (STATE != 0 && counted > 0) {
    uvec2 errors = thread == 0 && head == 0 ? p.index_errors : uvec2(0);
    own = checked_index(place, sequence, p.states, errors);
    at = own * HEADS + head;
    if (position > 0 && inside) {
      for (uint r = 0; r < ROWS && first + r < KEY; ++r)
        column_of_state[r] = BufferF32(p.state).v[(at * KEY + first + r) * p.value + value];
    }
  }
  vec2 gates = counted > 0 ? load_gates(sequence * p.steps * HEADS + head, head) : vec2(0.0);
  if (TAPS != 0 && counted > 0) {
    bool first_of_key = TILED != 0 ? head < KEY_HEADS : head % (HEADS / KEY_HEADS) == 0;
    [[unroll]] for (uint i = thread; i < 2 * KEY + COLUMNS; i += THREADS) {
      uint keys = KEY_HEADS * KEY, other = gl_WorkGroupID.x * COLUMNS + i - 2 * KEY;  // the latter: of a column
      bool is_value = i >= 2 * KEY;
      uint channel = is_value ? 2 * keys + head * p.value + other : (i < KEY ? 0 : keys - KEY) + key_at + i;
      bool keeps = UPDATES != 0 && (is_value || (first_of_key && gl_WorkGroupID.x == 0));
      if (!is_value || other < p.value) convolved[i] = convolve(sequence, own, position, channel, keeps);
    }
    barrier();
  }
  for (uint t = 0; t < counted; ++t) {
    uint step = sequence * p.steps + t, slot = t % 2, each = step * HEADS + head;
    float decay = exp(gates.x), beta = gates.y, keys[ROWS], found = 0.0, asked = 0.0, both = 0.0;
    if (t + 1 < counted) gates = load_gates(each + HEADS, head);
    vec2 squares = vec2(0.0);  // of q and k
    [[unroll]] for (uint r = 0; r < ROWS; ++r) {
      keys[r] = 0.0;
      if (first + r < KEY) {
        uint e = first + r;
        keys[r] = TAPS != 0 ? convolved[KEY + e] : load_float(p.k, step * p.k_pitch + key_at + e, DTYPE);
        float query = TAPS != 0 ? convolved[e] : load_float(p.q, step * p.q_pitch + key_at + e, DTYPE);
        column_of_state[r] *= decay;
        found += column_of_state[r] * keys[r];
        asked += column_of_state[r] * query;
        both += keys[r] * query;
        squares += vec2(query * query, keys[r] * keys[r]);
      }
    }
    partial[slot][0][thread] = found;
    partial[slot][1][thread] = asked;
    partial[slot][2][thread] = both;
    if (NORMALIZE != 0) {
      partial[slot][3][thread] = squares.x;
      partial[slot][4][thread] = squares.y;
    }
    barrier();
    vec2 by = vec2(1.0);  // what q and k are multiplied by
    if (NORMALIZE != 0) {
      by = inversesqrt(vec2(total(slot, 3, column), total(slot, 4, column)) + 1e-6);
      by.x *= inversesqrt(float(KEY));
    }
    float written = 0.0;
    if (inside && TAPS != 0) written = convolved[2 * KEY + column];
    if (inside && TAPS == 0) written = load_float(p.v, step * p.v_pitch + head * p.value + value, DTYPE);
    if (DELTA != 0) written = (written - total(slot, 0, column) * by.y) * beta;
    [[unroll]] for (uint r = 0; r < ROWS; ++r) column_of_state[r] += keys[r] * by.y * written;
    if (part == 0 && inside) {
      float y = (total(slot, 1, column) + total(slot, 2, column) * by.y * written) * by.x;
      store_float(p.y, each * p.value + value, DTYPE, y);
    }
  }
  if (!inside) return;
  if (part == 0) {
    for (uint t = counted; t < p.steps; ++t)
      store_float(p.y, ((sequence * p.steps + t) * HEADS + head) * p.value + value, DTYPE, 0.0);
  }
  if (UPDATES == 0 || counted == 0) return;
  for (uint r = 0; r < ROWS && first + r < KEY; ++r)
    BufferF32(p.state).v[(at * KEY + first + r) * p.value + value] = column_of_state[r];
}
