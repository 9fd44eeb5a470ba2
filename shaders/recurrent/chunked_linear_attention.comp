#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
// What gated_linear_attention cannot compute for all chunks of steps at once: the state S [key, value] of a head, from
// chunk to chunk. Of the rows of a chunk, written = u - w · S, y = q · S + m · written, S ← decay · S + kᵀ · written.
// Columns of S do not depend on each other, so a workgroup owns 16 of them, in shared memory. Half of its threads
// multiplies S by w, then updates it; the other half multiplies S by q, then adds m · written. A thread has four rows,
// 16 apart so that they lie in different banks, and four columns. Bound by arithmetic in f32.
//
// variant: chunked_linear_attention

#include "index.glsl"
#include "vectors.glsl"

const uint ROWS = 64, GROUPS = 4, COLUMNS = 4 * GROUPS, HALF = 64;  // GROUPS: of four columns
layout(local_size_x = 2 * HALF) in;
layout(constant_id = 0) const uint KEY = 128;   // elements of a key, at most 256
layout(constant_id = 1) const uint DELTA = 1;   // whether there is w
layout(constant_id = 2) const uint STATE = 0;   // whether there is one before the first chunk, which is updated
layout(constant_id = 3) const uint COUNTS = 0;
layout(constant_id = 4) const uint KEEPS = 0;   // 1: `y` gets the state before each chunk, `state` what is written
layout(constant_id = 5) const uint WIDTH = 1;   // of loads of q, w and k: 4 or 1
layout(constant_id = 6) const uint STEPPED = 0;  // 1: y is [sequence, step, head, value], 0 at steps that do not count
layout(constant_id = 7) const uint Y_DTYPE = 1;
layout(constant_id = 8) const uint M_WIDTH = 1;
// Elements that the kernel counts with: as many as all threads load at once, or half of them.
const uint KEYS = KEY > 128 ? (KEY + 63) / 64 * 64 : KEY == 0 ? 32 : (KEY + 31) / 32 * 32;

layout(push_constant, scalar) uniform Push {
  uvec2 q, w, m, u, k, decay, state, rows, positions, counts, index_errors, y;
  uint chunks, heads, steps, value;   // steps: of a chunk, at most ROWS
  uint w_pitch, u_pitch, state_rows;  // pitch: elements between rows
  uint all_steps;                     // of y, if STEPPED
} p;

const uint KEY_SLICE = KEYS > 128 ? 16 : 32, STEP_SLICE = KEYS > 128 ? 8 : 16;
const uint KEY_ROW = KEY_SLICE / 4 + 1, STEP_ROW = STEP_SLICE / 4 + 1;  // odd, for the banks
const uint PRODUCT = 2 * ROWS * KEY_ROW, UPDATE = ROWS * STEP_ROW + STEP_SLICE * KEYS / 4;
const uint TILES = (KEYS + HALF - 1) / HALF;  // four keys by four columns, of a thread that updates

shared vec4 state[KEYS * GROUPS], written[ROWS * GROUPS];
shared vec4 staged[PRODUCT > UPDATE ? PRODUCT : UPDATE];

uint thread = gl_LocalInvocationID.x, row = thread / GROUPS % 16, group = thread % GROUPS;
bool updates = thread < HALF;
uint first_column = gl_WorkGroupID.x * COLUMNS, column = first_column + 4 * group;

uint counted_steps(uint sequence) {
  if (STATE == 0) return p.all_steps;
  if (BufferI32(p.positions).v[sequence] < 0) return 0u;
  return COUNTS != 0 ? uint(clamp(BufferI32(p.counts).v[sequence], 0, int(p.all_steps))) : p.all_steps;
}

// Elements from i on, of which `at` to `end` are there.
vec4 four(uvec2 address, uint i, uint at, uint end, uint width) {
  return load_vector(address, i, at < end ? min(end - at, 4u) : 0u, F32, width);
}

// Loads of the next slice are under way while the threads multiply the one that is staged.
const uint FETCHED_ROWS = ROWS * KEY_SLICE / 4 / HALF, FETCHED_M = ROWS * STEP_SLICE / 8 / HALF,
           FETCHED_KEYS = STEP_SLICE * KEYS / 8 / HALF;
vec4 fetched_rows[FETCHED_ROWS], fetched_m[FETCHED_M], fetched_keys[FETCHED_KEYS];

void fetch_rows(uint chunk, uint first) {
  [[unroll]] for (uint n = 0; n < FETCHED_ROWS; ++n) {
    uint i = n * 2 * HALF + thread, at = i / (KEY_SLICE / 4), r = at % ROWS, key = first + i % (KEY_SLICE / 4) * 4;
    bool of_q = at >= ROWS;
    if (!of_q && DELTA == 0) continue;
    fetched_rows[n] = r < p.steps ? four(of_q ? p.q : p.w, (chunk * p.steps + r) * (of_q ? KEY : p.w_pitch) + key, key,
                                         KEY, WIDTH)
                                  : vec4(0.0);
  }
}
void stage_rows() {
  [[unroll]] for (uint n = 0; n < FETCHED_ROWS; ++n) {
    uint i = n * 2 * HALF + thread;
    staged[i / (KEY_SLICE / 4) * KEY_ROW + i % (KEY_SLICE / 4)] = fetched_rows[n];
  }
}

void fetch_steps(uint chunk, uint first) {
  [[unroll]] for (uint n = 0; n < FETCHED_M; ++n) {
    uint i = n * 2 * HALF + thread, r = i / (STEP_SLICE / 4), s = first + i % (STEP_SLICE / 4) * 4;
    fetched_m[n] = r < p.steps ? four(p.m, (chunk * p.steps + r) * p.steps + s, s, p.steps, M_WIDTH) : vec4(0.0);
  }
  [[unroll]] for (uint n = 0; n < FETCHED_KEYS; ++n) {
    uint i = n * 2 * HALF + thread, s = first + i / (KEYS / 4), key = i % (KEYS / 4) * 4;
    fetched_keys[n] = s < p.steps ? four(p.k, (chunk * p.steps + s) * KEY + key, key, KEY, WIDTH) : vec4(0.0);
  }
}
void stage_steps() {
  [[unroll]] for (uint n = 0; n < FETCHED_M; ++n) {
    uint i = n * 2 * HALF + thread;
    staged[i / (STEP_SLICE / 4) * STEP_ROW + i % (STEP_SLICE / 4)] = fetched_m[n];
  }
  [[unroll]] for (uint n = 0; n < FETCHED_KEYS; ++n) staged[ROWS * STEP_ROW + n * 2 * HALF + thread] = fetched_keys[n];
}

void main() {
  uint head = gl_WorkGroupID.y, sequence = gl_WorkGroupID.z, place = 0;
  uint counted = counted_steps(sequence);
  bool goes_on = false, kept = STATE != 0 && counted > 0;
  if (STATE != 0) {
    uvec2 errors = kept && thread == 0 && head == 0 ? p.index_errors : uvec2(0);
    place = load_index(p.rows, sequence, I32, p.state_rows, errors) * p.heads + head;
    goes_on = BufferI32(p.positions).v[sequence] > 0;
  }
  for (uint i = thread; i < KEYS * GROUPS; i += 2 * HALF) {
    uint key = i / GROUPS, at = first_column + i % GROUPS * 4;
    state[i] = goes_on && key < KEY ? four(p.state, (place * KEY + key) * p.value + at, at, p.value, 1) : vec4(0.0);
  }
  fetch_rows((sequence * p.heads + head) * p.chunks, 0);
  for (uint c = 0; c < p.chunks; ++c) {
    uint chunk = (sequence * p.heads + head) * p.chunks + c;
    vec4 sum[4] = vec4[4](vec4(0.0), vec4(0.0), vec4(0.0), vec4(0.0));
    for (uint first = 0; first < KEYS; first += KEY_SLICE) {
      barrier();
      stage_rows();
      barrier();
      if (first + KEY_SLICE < KEYS) fetch_rows(chunk, first + KEY_SLICE);
      else fetch_steps(chunk, 0);
      for (uint i = 0; i < (updates && DELTA == 0 ? 0 : KEY_SLICE / 4); ++i) {
        vec4 s[4];
        [[unroll]] for (uint j = 0; j < 4; ++j) s[j] = state[(first + 4 * i + j) * GROUPS + group];
        [[unroll]] for (uint r = 0; r < 4; ++r) {
          vec4 a = staged[((updates ? 0 : ROWS) + 16 * r + row) * KEY_ROW + i];
          sum[r] += a.x * s[0] + a.y * s[1] + a.z * s[2] + a.w * s[3];
        }
      }
    }
    if (KEEPS != 0) {
      for (uint i = thread; i < KEYS * GROUPS; i += 2 * HALF) {
        uint key = i / GROUPS, at = first_column + i % GROUPS * 4;
        if (key < KEY && at < p.value)
          store_vector(p.y, (chunk * KEY + key) * p.value + at, min(p.value - at, 4u), F32, 1, state[i]);
      }
    }
    if (updates) {
      [[unroll]] for (uint r = 0; r < 4; ++r) {
        uint step = 16 * r + row, at = (chunk * p.steps + step) * p.u_pitch + column;
        vec4 rest = (step < p.steps ? four(p.u, at, column, p.value, 1) : vec4(0.0)) - sum[r];
        written[step * GROUPS + group] = rest;
        if (KEEPS != 0 && step < p.steps && column < p.value)
          store_vector(p.state, (chunk * p.steps + step) * p.value + column, min(p.value - column, 4u), F32, 1, rest);
      }
    }
    vec4 update[TILES * 4];
    [[unroll]] for (uint i = 0; i < TILES * 4; ++i) update[i] = vec4(0.0);
    for (uint first = 0; first < p.steps; first += STEP_SLICE) {
      barrier();
      stage_steps();
      barrier();
      if (first + STEP_SLICE < p.steps) fetch_steps(chunk, first + STEP_SLICE);
      else if (c + 1 < p.chunks) fetch_rows(chunk + 1, 0);
      if (!updates) {
        for (uint i = 0; i < STEP_SLICE / 4; ++i) {
          vec4 s[4];
          [[unroll]] for (uint j = 0; j < 4; ++j) s[j] = written[(first + 4 * i + j) * GROUPS + group];
          [[unroll]] for (uint r = 0; r < 4; ++r) {
            vec4 a = staged[(16 * r + row) * STEP_ROW + i];
            sum[r] += a.x * s[0] + a.y * s[1] + a.z * s[2] + a.w * s[3];
          }
        }
      } else {
        for (uint i = 0; i < STEP_SLICE; ++i) {
          vec4 s = written[(first + i) * GROUPS + group];
          [[unroll]] for (uint t = 0; t < TILES; ++t) {
            uint four_keys = 16 * t + row;
            vec4 a = four_keys < KEYS / 4 ? staged[ROWS * STEP_ROW + i * (KEYS / 4) + four_keys] : vec4(0.0);
            [[unroll]] for (uint j = 0; j < 4; ++j) update[4 * t + j] += a[j] * s;
          }
        }
      }
    }
    float decay = BufferF32(p.decay).v[chunk];
    if (updates) {
      [[unroll]] for (uint i = 0; i < TILES * 4; ++i) {
        uint key = 4 * (16 * (i / 4) + row) + i % 4;
        if (key < KEYS) state[key * GROUPS + group] = decay * state[key * GROUPS + group] + update[i];
      }
    } else if (KEEPS == 0) {
      [[unroll]] for (uint r = 0; r < 4; ++r) {
        uint step = 16 * r + row, of_all = c * p.steps + step, to = (chunk * p.steps + step) * p.value + column;
        if (STEPPED != 0) to = ((sequence * p.all_steps + of_all) * p.heads + head) * p.value + column;
        if (step < p.steps && column < p.value && (STEPPED == 0 || of_all < p.all_steps))
          store_vector(p.y, to, min(p.value - column, 4u), Y_DTYPE, 1,
                       STEPPED == 0 || of_all < counted ? sum[r] : vec4(0.0));
      }
    }
  }
  barrier();
  if (!kept) return;
  for (uint i = thread; i < KEYS * GROUPS; i += 2 * HALF) {
    uint key = i / GROUPS, at = first_column + i % GROUPS * 4;
    if (key < KEY && at < p.value)
      store_vector(p.state, (place * KEY + key) * p.value + at, min(p.value - at, 4u), F32, 1, state[i]);
  }
}
