#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
// The gradient D [key, value] of the state of chunked_linear_attention, from the last chunk to the first. Of the rows
// of a chunk, du = mᵀ · dy + k · D, and D ← decay · D + qᵀ · dy - wᵀ · du; what other gradients need of it is written:
// du, and D before that. Workgroups own 16 columns. Of each product each half of the threads sums every second part.
//
// variant: chunked_linear_attention_backward

#include "vectors.glsl"

const uint ROWS = 64, GROUPS = 4, COLUMNS = 4 * GROUPS, HALF = 64;
layout(local_size_x = 2 * HALF) in;
layout(constant_id = 0) const uint KEYS = 128;  // elements of a key, to a multiple of 32, at most 256
layout(constant_id = 1) const uint DELTA = 1;   // whether there is w
layout(constant_id = 2) const uint WIDTH = 1;   // of loads of q, w and k: 4 or 1

layout(push_constant, scalar) uniform Push {
  uvec2 q, w, m, k, decay, dy, du, states;
  uint chunks, heads, steps, key, value;  // steps: of a chunk, at most ROWS
  uint w_pitch;                           // elements between rows
} p;

const uint KEY_SLICE = KEYS > 128 ? 16 : 32, KEY_ROW = KEY_SLICE / 4 + 1;
const uint TURNED = 16, STEP_SLICE = KEYS > 128 ? 4 : 16;  // steps of m, and of q and w
const uint PRODUCT = ROWS * KEY_ROW, TRANSPOSED = TURNED * ROWS / 4, UPDATE = 2 * STEP_SLICE * KEYS / 4;
const uint LARGER = PRODUCT > TRANSPOSED ? PRODUCT : TRANSPOSED;
const uint TILES = (KEYS + 2 * HALF - 1) / (2 * HALF);  // four keys by four columns, of a thread

shared vec4 state[KEYS * GROUPS], gradient[ROWS * GROUPS], rest[ROWS * GROUPS];
shared vec4 staged[LARGER > UPDATE ? LARGER : UPDATE];

uint thread = gl_LocalInvocationID.x, row = thread / GROUPS % 16, group = thread % GROUPS, half_of = thread / HALF;
uint first_column = gl_WorkGroupID.x * COLUMNS;

vec4 four(uvec2 address, uint i, uint at, uint end, uint width) {
  return load_vector(address, i, at < end ? min(end - at, 4u) : 0u, F32, width);
}

void stage_keys(uint chunk, uint first) {
  for (uint i = thread; i < ROWS * (KEY_SLICE / 4); i += 2 * HALF) {
    uint r = i / (KEY_SLICE / 4), key = first + i % (KEY_SLICE / 4) * 4;
    staged[r * KEY_ROW + i % (KEY_SLICE / 4)] =
        r < p.steps ? four(p.k, (chunk * p.steps + r) * p.key + key, key, p.key, WIDTH) : vec4(0.0);
  }
}

void stage_steps(uint chunk, uint first) {
  for (uint i = thread; i < 2 * STEP_SLICE * KEYS / 4; i += 2 * HALF) {
    uint of_w = i / (STEP_SLICE * KEYS / 4), s = first + i / (KEYS / 4) % STEP_SLICE, key = i % (KEYS / 4) * 4;
    uint pitch = of_w == 1 ? p.w_pitch : p.key;
    bool there = s < p.steps && (of_w == 0 || DELTA != 0);
    vec4 x = there ? four(of_w == 1 ? p.w : p.q, (chunk * p.steps + s) * pitch + key, key, p.key, WIDTH) : vec4(0.0);
    staged[i] = of_w == 1 ? -x : x;
  }
}

void main() {
  uint head = gl_WorkGroupID.y, sequence = gl_WorkGroupID.z;
  for (uint i = thread; i < KEYS * GROUPS; i += 2 * HALF) state[i] = vec4(0.0);
  for (uint c = p.chunks; c-- > 0;) {
    uint chunk = (sequence * p.heads + head) * p.chunks + c;
    barrier();
    for (uint i = thread; i < KEYS * GROUPS; i += 2 * HALF) {
      uint key = i / GROUPS, at = first_column + i % GROUPS * 4;
      if (key < p.key && at < p.value)
        store_vector(p.states, (chunk * p.key + key) * p.value + at, min(p.value - at, 4u), F32, 1, state[i]);
    }
    for (uint i = thread; i < ROWS * GROUPS; i += 2 * HALF) {
      uint step = i / GROUPS, at = first_column + i % GROUPS * 4;
      gradient[i] =
          step < p.steps ? four(p.dy, (chunk * p.steps + step) * p.value + at, at, p.value, 1) : vec4(0.0);
    }
    vec4 sum[4] = vec4[4](vec4(0.0), vec4(0.0), vec4(0.0), vec4(0.0));
    for (uint first = 0; first < KEYS; first += KEY_SLICE) {
      barrier();
      stage_keys(chunk, first);
      barrier();
      for (uint i = half_of; i < KEY_SLICE / 4; i += 2) {
        vec4 s[4];
        [[unroll]] for (uint j = 0; j < 4; ++j) s[j] = state[(first + 4 * i + j) * GROUPS + group];
        [[unroll]] for (uint r = 0; r < 4; ++r) {
          vec4 a = staged[(16 * r + row) * KEY_ROW + i];
          sum[r] += a.x * s[0] + a.y * s[1] + a.z * s[2] + a.w * s[3];
        }
      }
    }
    for (uint first = 0; first < p.steps; first += TURNED) {
      barrier();
      for (uint i = thread; i < TURNED * ROWS / 4; i += 2 * HALF) {
        uint s = first + i / (ROWS / 4), r = i % (ROWS / 4) * 4;
        staged[i] = s < p.steps ? four(p.m, (chunk * p.steps + s) * p.steps + r, r, p.steps, 1) : vec4(0.0);
      }
      barrier();
      for (uint i = half_of; i < TURNED; i += 2) {
        vec4 s = gradient[(first + i) * GROUPS + group];
        [[unroll]] for (uint r = 0; r < 4; ++r) {
          uint of_row = 16 * r + row;
          sum[r] += staged[i * (ROWS / 4) + of_row / 4][of_row % 4] * s;
        }
      }
    }
    if (half_of == 1) {
      [[unroll]] for (uint r = 0; r < 4; ++r) rest[(16 * r + row) * GROUPS + group] = sum[r];
    }
    barrier();
    if (half_of == 0) {
      [[unroll]] for (uint r = 0; r < 4; ++r) {
        uint step = 16 * r + row, column = first_column + 4 * group;
        vec4 all = rest[step * GROUPS + group] + sum[r];
        rest[step * GROUPS + group] = all;
        if (step < p.steps && column < p.value)
          store_vector(p.du, (chunk * p.steps + step) * p.value + column, min(p.value - column, 4u), F32, 1, all);
      }
    }
    vec4 update[TILES * 4];
    [[unroll]] for (uint i = 0; i < TILES * 4; ++i) update[i] = vec4(0.0);
    for (uint first = 0; first < p.steps; first += STEP_SLICE) {
      barrier();
      stage_steps(chunk, first);
      barrier();
      for (uint i = 0; i < STEP_SLICE; ++i) {
        vec4 asked = gradient[(first + i) * GROUPS + group], wrote = rest[(first + i) * GROUPS + group];
        [[unroll]] for (uint t = 0; t < TILES; ++t) {
          uint four_keys = 2 * 16 * t + 16 * half_of + row;
          if (four_keys < KEYS / 4) {
            vec4 a = staged[i * (KEYS / 4) + four_keys], b = staged[(STEP_SLICE + i) * (KEYS / 4) + four_keys];
            [[unroll]] for (uint j = 0; j < 4; ++j) update[4 * t + j] += a[j] * asked + b[j] * wrote;
          }
        }
      }
    }
    float decay = BufferF32(p.decay).v[chunk];
    [[unroll]] for (uint i = 0; i < TILES * 4; ++i) {
      uint key = 4 * (2 * 16 * (i / 4) + 16 * half_of + row) + i % 4;
      if (key < KEYS) state[key * GROUPS + group] = decay * state[key * GROUPS + group] + update[i];
    }
  }
}
