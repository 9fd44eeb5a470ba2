#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
// Running results along contiguous rows: sums, products, maxima and minima with their index, log-sum-exp, and the
// recurrence s[i] = b[i] + a[i] s[i-1]. Each is a scan with an associative operator. Bytes-bound: a row is read twice
// and written once.
//
// A workgroup takes a chunk of 4096 elements (2048 of i64), a thread 16 (8) neighbours of it. Elements pass through
// shared memory, so that neighbouring threads read and write neighbours. If a row has more chunks, accumulate_totals
// first reduces each chunk, and accumulate_carry (one workgroup per row) scans these to get the state before each
// chunk. The order of the steps depends only on the row's length.
// Where floats are aligned to vectors of four, these are what moves. Not with maxima and minima, which that makes
// slower: their time is that of writing indices. Lost: steps that scan four or sixteen states at once, for fewer
// barriers; four chunks a workgroup in accumulate_totals; 512 threads.
//
// variant: accumulate_float T=float T_FLOAT
// variant: accumulate_vectors T=float T_FLOAT VECTORS
// variant: accumulate_int T=int T_INT
// variant: accumulate_i64 T=int64_t T_I64
// variant: accumulate_pairs T=uvec2 T_PAIR
// variant: accumulate_totals_float T=float T_FLOAT TOTALS
// variant: accumulate_totals_vectors T=float T_FLOAT TOTALS VECTORS
// variant: accumulate_totals_int T=int T_INT TOTALS
// variant: accumulate_totals_i64 T=int64_t T_I64 TOTALS
// variant: accumulate_totals_pairs T=uvec2 T_PAIR TOTALS
// variant: accumulate_carry_float T=float T_FLOAT CARRY
// variant: accumulate_carry_int T=int T_INT CARRY
// variant: accumulate_carry_i64 T=int64_t T_I64 CARRY
// variant: accumulate_carry_pairs T=uvec2 T_PAIR CARRY

#include "dtype.glsl"
#include "arithmetic.glsl"
#include "math.glsl"
#ifdef VECTORS
#include "vectors.glsl"
#endif

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint KIND = 0;
layout(constant_id = 1) const uint REVERSE = 0;
layout(constant_id = 2) const uint X_DTYPE = 1;
layout(constant_id = 3) const uint Y_DTYPE = 1;
layout(constant_id = 4) const uint STATE_DTYPE = 1;  // holds a T

const uint SUM = 0, PRODUCT = 1, LARGEST = 2, SMALLEST = 3, LOG_SUM_EXP = 4, RECURRENCE = 5;
#if defined(T_I64) || defined(T_PAIR)
const uint ELEMENTS = 8;
#else
const uint ELEMENTS = 16;
#endif
const uint THREADS = 256, CHUNK = THREADS * ELEMENTS;

layout(push_constant, scalar) uniform Push {
  uvec2 x, factors;  // factors: a of the recurrence
  uvec2 y, indices;
  uvec2 totals, extra, places;  // for each chunk: the state's value, its second value, its index
  uint rows, n, chunks;
} p;

struct State {
  T value;
  T extra;     // the scaled sum of LOG_SUM_EXP, the product of factors of RECURRENCE
  uint place;  // for LARGEST and SMALLEST
};

bool has_extra() { return KIND == LOG_SUM_EXP || KIND == RECURRENCE; }
bool has_place() { return KIND == LARGEST || KIND == SMALLEST; }

State identity() {
  if (KIND == PRODUCT) return State(ONE, ZERO, 0);
  if (KIND == RECURRENCE) return State(ZERO, ONE, 0);
  if (KIND == LARGEST || KIND == LOG_SUM_EXP) return State(LOWEST, ZERO, 0);
  if (KIND == SMALLEST) return State(HIGHEST, ZERO, 0);
  return State(ZERO, ZERO, 0);
}

bool is_nan(T v) {
#ifdef T_FLOAT
  return m_isnan(v);
#else
  return false;
#endif
}

#ifdef T_FLOAT
float scaled(float v, float most) { return v == most ? 1.0 : exp(v - most); }
#endif

// Combines a, then b.
State combined(State a, State b) {
  switch (KIND) {
    case SUM: return State(plus(a.value, b.value), ZERO, 0);
    case PRODUCT: return State(times(a.value, b.value), ZERO, 0);
    case LARGEST:
      if (is_nan(b.value) || (!is_nan(a.value) && !less(b.value, a.value))) return b;
      return a;
    case SMALLEST:
      if (is_nan(b.value) || (!is_nan(a.value) && !less(a.value, b.value))) return b;
      return a;
    case RECURRENCE: return State(plus(b.value, times(b.extra, a.value)), times(a.extra, b.extra), 0);
  }
#ifdef T_FLOAT
  if (is_nan(a.value)) return a;
  if (is_nan(b.value)) return b;
  float most = max(a.value, b.value);
  return State(most, a.extra * scaled(a.value, most) + b.extra * scaled(b.value, most), 0);
#else
  return a;
#endif
}

T result(State s) {
#ifdef T_FLOAT
  if (KIND == LOG_SUM_EXP) return is_nan(s.value) ? s.value : log(s.extra) + s.value;
#endif
  return s.value;
}

// Two sets of states, so that a step of the scan writes one while it reads the other.
shared T values[2 * THREADS];
shared T extras[2 * THREADS];
shared uint places[2 * THREADS];

void share(uint at, State s) {
  values[at] = s.value;
  if (has_extra()) extras[at] = s.extra;
  if (has_place()) places[at] = s.place;
}
State shared_state(uint at) {
  return State(values[at], has_extra() ? extras[at] : ZERO, has_place() ? places[at] : 0);
}

// The state through this thread; shared_state() then returns that of any thread. Ends with a barrier.
State scan_threads(State s) {
  uint t = gl_LocalInvocationID.x, from = 0;
  share(t, s);
  barrier();
  // An even number of steps: the last one writes the first set.
  [[unroll]] for (uint apart = 1; apart < THREADS; apart *= 2) {
    if (t >= apart) s = combined(shared_state(from + t - apart), s);
    from = THREADS - from;
    share(from + t, s);
    barrier();
  }
  return s;
}

// All states combined, in order, in thread 0.
State reduce_threads(State s) {
  const uint GROUP = 16;
  uint t = gl_LocalInvocationID.x;
  share(t, s);
  barrier();
  if (t < THREADS / GROUP) {
    s = shared_state(t * GROUP);
    for (uint k = 1; k < GROUP; ++k) s = combined(s, shared_state(t * GROUP + k));
    share(THREADS + t, s);
  }
  barrier();
  if (t == 0) {
    for (uint k = 1; k < THREADS / GROUP; ++k) s = combined(s, shared_state(THREADS + k));
  }
  return s;
}

// The elements of a chunk, in order.
#ifdef VECTORS
shared vec4 exchanged[CHUNK / 4];
// Threads take four neighbours; without a swizzle they would conflict in eight banks.
uint slot_of(uint vector) { return vector ^ ((vector >> 3) & 7u); }

void put_neighbours(T v[ELEMENTS]) {
  [[unroll]] for (uint k = 0; k < ELEMENTS; k += 4) {
    exchanged[slot_of((gl_LocalInvocationID.x * ELEMENTS + k) / 4)] = vec4(v[k], v[k + 1], v[k + 2], v[k + 3]);
  }
}
void take_neighbours(out T v[ELEMENTS]) {
  [[unroll]] for (uint k = 0; k < ELEMENTS; k += 4) {
    vec4 four = exchanged[slot_of((gl_LocalInvocationID.x * ELEMENTS + k) / 4)];
    [[unroll]] for (uint j = 0; j < 4; ++j) v[k + j] = four[j];
  }
}
#else
shared T exchanged[CHUNK];
// Threads take 16 neighbours; without a swizzle they would conflict in two banks.
uint slot_of(uint i) { return i ^ ((i >> 5) & 31u); }

void put_neighbours(T v[ELEMENTS]) {
  [[unroll]] for (uint k = 0; k < ELEMENTS; ++k) exchanged[slot_of(gl_LocalInvocationID.x * ELEMENTS + k)] = v[k];
}
void take_neighbours(out T v[ELEMENTS]) {
  [[unroll]] for (uint k = 0; k < ELEMENTS; ++k) v[k] = exchanged[slot_of(gl_LocalInvocationID.x * ELEMENTS + k)];
}
#endif

#ifdef CARRY
// This thread's neighbours of `count` totals from `first` on. Ends with a barrier.
void load_totals(uvec2 from, uint first, uint count, out T v[ELEMENTS]) {
  // One workgroup waits for memory here: all loads before the first use.
  [[unroll]] for (uint k = 0; k < ELEMENTS; ++k) {
    v[k] = load_value(from, first + min(k * THREADS + gl_LocalInvocationID.x, count - 1), STATE_DTYPE);
  }
  [[unroll]] for (uint k = 0; k < ELEMENTS; ++k) exchanged[slot_of(k * THREADS + gl_LocalInvocationID.x)] = v[k];
  barrier();
  take_neighbours(v);
  barrier();
}
// The reverse.
void store_totals(uvec2 to, uint first, uint count, T v[ELEMENTS]) {
  put_neighbours(v);
  barrier();
  [[unroll]] for (uint k = 0; k < ELEMENTS; ++k) {
    uint i = k * THREADS + gl_LocalInvocationID.x;
    if (i < count) store_value(to, first + i, STATE_DTYPE, exchanged[slot_of(i)]);
  }
  barrier();
}
#else
void put_total(uint i, State s) {
  store_value(p.totals, i, STATE_DTYPE, s.value);
  if (has_extra()) store_value(p.extra, i, STATE_DTYPE, s.extra);
  if (has_place()) BufferI32(p.places).v[i] = int(s.place);
}
State total_at(uint i) {
  State s = identity();
  s.value = load_value(p.totals, i, STATE_DTYPE);
  if (has_extra()) s.extra = load_value(p.extra, i, STATE_DTYPE);
  if (has_place()) s.place = uint(BufferI32(p.places).v[i]);
  return s;
}

uint place_in_row(uint i) { return REVERSE != 0 ? p.n - 1 - i : i; }

#ifdef VECTORS
// Where the vector begins whose first element is `i` of the row.
uint vector_in_row(uint row, uint i) { return row * p.n + (REVERSE != 0 ? p.n - 4 - i : i); }
vec4 in_order(vec4 four) { return REVERSE != 0 ? four.wzyx : four; }
#endif

// This thread's neighbours of a chunk that starts at `first` in the row. Ends with a barrier.
void load_neighbours(uvec2 from, uint row, uint first, out T v[ELEMENTS]) {
  uint t = gl_LocalInvocationID.x;
  // All loads before the first use, so that they overlap.
#ifdef VECTORS
  vec4 fours[ELEMENTS / 4];
  [[unroll]] for (uint k = 0; k < ELEMENTS / 4; ++k) {
    uint i = min(first + 4 * (k * THREADS + t), p.n - 4);
    fours[k] = in_order(load_vector(from, vector_in_row(row, i), 4, X_DTYPE, 4));
  }
  [[unroll]] for (uint k = 0; k < ELEMENTS / 4; ++k) exchanged[slot_of(k * THREADS + t)] = fours[k];
#else
  [[unroll]] for (uint k = 0; k < ELEMENTS; ++k) {
    v[k] = load_value(from, row * p.n + place_in_row(min(first + k * THREADS + t, p.n - 1)), X_DTYPE);
  }
  [[unroll]] for (uint k = 0; k < ELEMENTS; ++k) exchanged[slot_of(k * THREADS + t)] = v[k];
#endif
  barrier();
  take_neighbours(v);
  barrier();
}

#ifndef TOTALS
void store_neighbours(uint row, uint first, T v[ELEMENTS]) {
  uint t = gl_LocalInvocationID.x;
  put_neighbours(v);
  barrier();
#ifdef VECTORS
  [[unroll]] for (uint k = 0; k < ELEMENTS / 4; ++k) {
    uint i = first + 4 * (k * THREADS + t);
    vec4 four = in_order(exchanged[slot_of(k * THREADS + t)]);
    if (i < p.n) store_vector(p.y, vector_in_row(row, i), 4, Y_DTYPE, 4, four);
  }
#else
  [[unroll]] for (uint k = 0; k < ELEMENTS; ++k) {
    uint i = k * THREADS + t;
    if (first + i < p.n) store_value(p.y, row * p.n + place_in_row(first + i), Y_DTYPE, exchanged[slot_of(i)]);
  }
#endif
}
#endif
#endif

void main() {
  uint t = gl_LocalInvocationID.x, group = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
#ifdef CARRY
  if (group >= p.rows) return;
  State before = identity();
  for (uint first = 0; first < p.chunks; first += CHUNK) {
    uint start = group * p.chunks + first, count = min(CHUNK, p.chunks - first), own_start = t * ELEMENTS;
    T totals[ELEMENTS], extras[ELEMENTS];
    uint own_places[ELEMENTS];
    if (has_place()) {
      [[unroll]] for (uint k = 0; k < ELEMENTS; ++k) {
        own_places[k] = uint(BufferI32(p.places).v[start + min(own_start + k, count - 1)]);
      }
    }
    load_totals(p.totals, start, count, totals);
    if (has_extra()) load_totals(p.extra, start, count, extras);
    State own = identity(), states[ELEMENTS];
    [[unroll]] for (uint k = 0; k < ELEMENTS; ++k) {
      states[k] = State(totals[k], has_extra() ? extras[k] : ZERO, has_place() ? own_places[k] : 0);
      if (own_start + k < count) own = combined(own, states[k]);
    }
    scan_threads(own);
    State through = before;
    if (t > 0) through = combined(before, shared_state(t - 1));
    before = combined(before, shared_state(THREADS - 1));
    [[unroll]] for (uint k = 0; k < ELEMENTS; ++k) {
      totals[k] = through.value;
      extras[k] = through.extra;
      if (has_place() && own_start + k < count) BufferI32(p.places).v[start + own_start + k] = int(through.place);
      through = combined(through, states[k]);
    }
    store_totals(p.totals, start, count, totals);
    if (has_extra()) store_totals(p.extra, start, count, extras);
  }
#else
  if (group >= p.rows * p.chunks) return;
#ifndef TOTALS
  // From the end, which TOTALS has read last, so that it may still be in the cache.
  group = p.rows * p.chunks - 1 - group;
#endif
  uint row = group / p.chunks, chunk = group % p.chunks, start = chunk * CHUNK, first = start + t * ELEMENTS;
  State own = identity();
#ifdef TOTALS
  // Sums and products may be combined in any order, as long as it is the same in every run.
  if (KIND == SUM || KIND == PRODUCT) {
    T x[ELEMENTS];
    [[unroll]] for (uint k = 0; k < ELEMENTS; ++k) {
      x[k] = load_value(p.x, row * p.n + place_in_row(min(start + k * THREADS + t, p.n - 1)), X_DTYPE);
    }
    [[unroll]] for (uint k = 0; k < ELEMENTS; ++k) {
      if (start + k * THREADS + t < p.n) own = combined(own, State(x[k], ZERO, 0));
    }
    own = reduce_threads(own);
    if (t == 0) put_total(row * p.chunks + chunk, own);
    return;
  }
#endif
  T x[ELEMENTS], factors[ELEMENTS];
  load_neighbours(p.x, row, start, x);
  if (KIND == RECURRENCE) load_neighbours(p.factors, row, start, factors);
  [[unroll]] for (uint k = 0; k < ELEMENTS; ++k) {
    State s = State(x[k], KIND == RECURRENCE ? factors[k] : ONE, first + k);
    if (first + k < p.n) own = combined(own, s);
  }
#ifdef TOTALS
  own = reduce_threads(own);
  if (t == 0) put_total(row * p.chunks + chunk, own);
#else
  scan_threads(own);
  State s = identity();
  if (t > 0) s = shared_state(t - 1);
  if (p.chunks > 1) s = combined(total_at(row * p.chunks + chunk), s);
  [[unroll]] for (uint k = 0; k < ELEMENTS; ++k) {
    State next = State(x[k], KIND == RECURRENCE ? factors[k] : ONE, first + k);
    if (first + k < p.n) s = combined(s, next);
    x[k] = result(s);
    if (has_place() && first + k < p.n) {
      BufferWords(p.indices).v[row * p.n + place_in_row(first + k)] = uvec2(s.place, 0u);
    }
  }
  store_neighbours(row, start, x);
#endif
#endif
}
