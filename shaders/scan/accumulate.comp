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
//
// variant: accumulate_float T=float T_FLOAT
// variant: accumulate_int T=int T_INT
// variant: accumulate_i64 T=int64_t T_I64
// variant: accumulate_pairs T=uvec2 T_PAIR
// variant: accumulate_totals_float T=float T_FLOAT TOTALS
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

#ifndef CARRY
shared T exchanged[CHUNK];
// Threads read 16 neighbours; without a swizzle they would conflict in two banks.
uint slot_of(uint i) { return i ^ ((i >> 5) & 31u); }

uint place_in_row(uint i) { return REVERSE != 0 ? p.n - 1 - i : i; }

// This thread's neighbours of a chunk that starts at `first` in the row. Ends with a barrier.
void load_neighbours(uvec2 from, uint row, uint first, out T v[ELEMENTS]) {
  uint t = gl_LocalInvocationID.x;
  // All loads before the first use, so that they overlap.
  [[unroll]] for (uint k = 0; k < ELEMENTS; ++k) {
    v[k] = load_value(from, row * p.n + place_in_row(min(first + k * THREADS + t, p.n - 1)), X_DTYPE);
  }
  [[unroll]] for (uint k = 0; k < ELEMENTS; ++k) exchanged[slot_of(k * THREADS + t)] = v[k];
  barrier();
  [[unroll]] for (uint k = 0; k < ELEMENTS; ++k) v[k] = exchanged[slot_of(t * ELEMENTS + k)];
  barrier();
}
#endif

void main() {
  uint t = gl_LocalInvocationID.x, group = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
#ifdef CARRY
  if (group >= p.rows) return;
  State before = identity();
  for (uint first = 0; first < p.chunks; first += CHUNK) {
    uint chunk = first + t * ELEMENTS, i = group * p.chunks + chunk;
    State own = identity(), totals[ELEMENTS];
    // One workgroup waits for memory here: all loads before the first use.
    [[unroll]] for (uint k = 0; k < ELEMENTS; ++k) {
      totals[k] = total_at(group * p.chunks + min(chunk + k, p.chunks - 1));
      if (chunk + k >= p.chunks) totals[k] = identity();
    }
    [[unroll]] for (uint k = 0; k < ELEMENTS; ++k) own = combined(own, totals[k]);
    scan_threads(own);
    State through = before;
    if (t > 0) through = combined(before, shared_state(t - 1));
    [[unroll]] for (uint k = 0; k < ELEMENTS; ++k) {
      if (chunk + k < p.chunks) put_total(i + k, through);
      through = combined(through, totals[k]);
    }
    before = combined(before, shared_state(THREADS - 1));
    barrier();
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
    exchanged[slot_of(t * ELEMENTS + k)] = result(s);
    if (has_place() && first + k < p.n) {
      BufferWords(p.indices).v[row * p.n + place_in_row(first + k)] = uvec2(s.place, 0u);
    }
  }
  barrier();
  [[unroll]] for (uint k = 0; k < ELEMENTS; ++k) {
    uint i = k * THREADS + t;
    if (start + i < p.n) store_value(p.y, row * p.n + place_in_row(start + i), Y_DTYPE, exchanged[slot_of(i)]);
  }
#endif
#endif
}
