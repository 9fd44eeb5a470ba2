#version 460
#extension GL_GOOGLE_include_directive : require
// Running results along contiguous rows: sums, products, maxima and minima with their index, log-sum-exp, and the
// recurrence s[i] = b[i] + a[i] s[i-1]. Each is a scan of an associative step. Bytes-bound: a row is read twice and
// written once.
//
// A workgroup takes a chunk of 4096 elements, a thread 16 neighbours of it. If a row has more chunks, accumulate_totals
// first reduces each chunk, and accumulate_carry (one workgroup a row) turns those into what comes before each chunk.
// The order of the steps depends on the row's length alone.
//
// variant: accumulate_float T=float T_FLOAT
// variant: accumulate_int T=int T_INT
// variant: accumulate_i64 T=int64_t T_I64
// variant: accumulate_totals_float T=float T_FLOAT TOTALS
// variant: accumulate_totals_int T=int T_INT TOTALS
// variant: accumulate_totals_i64 T=int64_t T_I64 TOTALS
// variant: accumulate_carry_float T=float T_FLOAT CARRY
// variant: accumulate_carry_int T=int T_INT CARRY
// variant: accumulate_carry_i64 T=int64_t T_I64 CARRY

#include "dtype.glsl"
#include "math.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint KIND = 0;
layout(constant_id = 1) const uint REVERSE = 0;
layout(constant_id = 2) const uint X_DTYPE = 1;
layout(constant_id = 3) const uint Y_DTYPE = 1;
layout(constant_id = 4) const uint STATE_DTYPE = 1;  // holds a T

const uint SUM = 0, PRODUCT = 1, LARGEST = 2, SMALLEST = 3, LOG_SUM_EXP = 4, RECURRENCE = 5;
const uint THREADS = 256, ELEMENTS = 16, CHUNK = THREADS * ELEMENTS;

layout(push_constant, scalar) uniform Push {
  uvec2 x, factors;  // factors: a of the recurrence
  uvec2 y, indices;
  uvec2 totals, extra, places;  // of each chunk: the state's value, its second value, its index
  uint rows, n, chunks;
} p;

struct State {
  T value;
  T extra;     // the scaled sum of LOG_SUM_EXP, the product of factors of RECURRENCE
  uint place;  // of LARGEST and SMALLEST
};

bool has_extra() { return KIND == LOG_SUM_EXP || KIND == RECURRENCE; }
bool has_place() { return KIND == LARGEST || KIND == SMALLEST; }

State identity() {
  if (KIND == PRODUCT) return State(T(1), T(0), 0);
  if (KIND == RECURRENCE) return State(T(0), T(1), 0);
#if defined(T_FLOAT)
  if (KIND == LARGEST || KIND == LOG_SUM_EXP) return State(uintBitsToFloat(0xff800000u), 0.0, 0);
  if (KIND == SMALLEST) return State(uintBitsToFloat(0x7f800000u), 0.0, 0);
#elif defined(T_INT)
  if (KIND == LARGEST) return State(-2147483647 - 1, 0, 0);
  if (KIND == SMALLEST) return State(2147483647, 0, 0);
#else
  int64_t most = int64_t(packUint2x32(uvec2(0xffffffffu, 0x7fffffffu)));
  if (KIND == LARGEST) return State(-most - int64_t(1), T(0), 0);
  if (KIND == SMALLEST) return State(most, T(0), 0);
#endif
  return State(T(0), T(0), 0);
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

// a, then b.
State combined(State a, State b) {
  switch (KIND) {
    case SUM: return State(a.value + b.value, T(0), 0);
    case PRODUCT: return State(a.value * b.value, T(0), 0);
    case LARGEST:
      if (is_nan(b.value) || (!is_nan(a.value) && b.value >= a.value)) return b;
      return a;
    case SMALLEST:
      if (is_nan(b.value) || (!is_nan(a.value) && b.value <= a.value)) return b;
      return a;
    case RECURRENCE: return State(b.value + b.extra * a.value, a.extra * b.extra, 0);
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

shared T values[THREADS];
shared T extras[THREADS];
shared uint places[THREADS];

void share(State s) {
  values[gl_LocalInvocationID.x] = s.value;
  if (has_extra()) extras[gl_LocalInvocationID.x] = s.extra;
  if (has_place()) places[gl_LocalInvocationID.x] = s.place;
}
State shared_state(uint t) { return State(values[t], has_extra() ? extras[t] : T(0), has_place() ? places[t] : 0); }

// The state through this thread; shared_state() then gives that of any thread. Ends with a barrier.
State scan_threads(State s) {
  uint t = gl_LocalInvocationID.x;
  share(s);
  barrier();
  for (uint apart = 1; apart < THREADS; apart *= 2) {
    if (t >= apart) s = combined(shared_state(t - apart), s);
    barrier();
    share(s);
    barrier();
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

State element(uint row, uint i) {
  uint at = row * p.n + (REVERSE != 0 ? p.n - 1 - i : i);
  State s = State(load_value(p.x, at, X_DTYPE), T(0), i);
  if (KIND == LOG_SUM_EXP) s.extra = T(1);
  if (KIND == RECURRENCE) s.extra = load_value(p.factors, at, X_DTYPE);
  return s;
}

void main() {
  uint t = gl_LocalInvocationID.x, group = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
#ifdef CARRY
  if (group >= p.rows) return;
  State before = identity();
  for (uint first = 0; first < p.chunks; first += THREADS) {
    uint i = group * p.chunks + first + t;
    bool there = first + t < p.chunks;
    State own = identity();
    if (there) own = total_at(i);
    scan_threads(own);
    State through = before;
    if (t > 0) through = combined(before, shared_state(t - 1));
    if (there) put_total(i, through);
    before = combined(before, shared_state(THREADS - 1));
    barrier();
  }
#else
  uint row = group / p.chunks, chunk = group % p.chunks, first = chunk * CHUNK + t * ELEMENTS;
  if (row >= p.rows) return;
  State own = identity();
  for (uint k = 0; k < ELEMENTS && first + k < p.n; ++k) own = combined(own, element(row, first + k));
  State through = scan_threads(own);
#ifdef TOTALS
  if (t == THREADS - 1) put_total(row * p.chunks + chunk, through);
#else
  State s = identity();
  if (t > 0) s = shared_state(t - 1);
  if (p.chunks > 1) s = combined(total_at(row * p.chunks + chunk), s);
  for (uint k = 0; k < ELEMENTS && first + k < p.n; ++k) {
    uint i = first + k, at = row * p.n + (REVERSE != 0 ? p.n - 1 - i : i);
    s = combined(s, element(row, i));
    store_value(p.y, at, Y_DTYPE, result(s));
    if (has_place()) BufferWords(p.indices).v[at] = uvec2(s.place, 0u);
  }
#endif
#endif
}
