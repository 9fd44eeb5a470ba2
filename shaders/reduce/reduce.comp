#version 460
#extension GL_GOOGLE_include_directive : require
// Reductions over any dimensions. Bytes-bound: each element is read once. The 256 threads of a workgroup form SLOTS
// outputs x THREADS_PER_ROW threads per output. If reduced elements are contiguous in memory (rows), the threads of an
// output are neighbours; if outputs are (columns), the slots are. Either way neighbouring threads read neighbouring
// elements. Four loads are in flight before their values are merged, of four elements each if rows allow it (WIDTH 4).
// Then a thread takes at least 16 elements, so that reducing across threads costs little compared with the loads.
//
// Elements need divisions only if the reduced dimensions do not merge into one (WIDTH 0): two divisions per element
// take longer than loading it.
//
// Few outputs of many elements are split into chunks, one workgroup each, and a second dispatch merges their states
// (FROM_STATES). The split depends only on the shape and the device, so the bits do not vary.
//
// The variance of an output is computed from differences to its first element: a mean far from 0 costs no digits. The
// deviation and the norm sum squares of elements times a power of two, which is adapted to the largest element, so that
// they are correct where squares leave f32 (lib/row_scale.glsl).
//
// variant: reduce_float T=float T_FLOAT
// variant: reduce_int T=int T_INT
// variant: reduce_i64 T=int64_t T_I64
// variant: reduce_pairs T=uvec2 T_PAIR

#extension GL_EXT_control_flow_attributes : require
#include "dtype.glsl"
#include "arithmetic.glsl"
#include "math.glsl"
#ifdef T_FLOAT
#include "row_scale.glsl"
#include "vectors.glsl"
#endif

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint KIND = 0;
layout(constant_id = 1) const uint X_DTYPE = 1;
layout(constant_id = 2) const uint Y_DTYPE = 1;
layout(constant_id = 3) const uint THREADS_PER_ROW = 256;
layout(constant_id = 4) const uint COLUMNS = 0;
layout(constant_id = 5) const uint FROM_STATES = 0;
layout(constant_id = 6) const uint TO_STATES = 0;
// 0: the reduced elements are in two dimensions, 1: in one, 4: contiguous, in whole groups of four
layout(constant_id = 7) const uint WIDTH = 0;
const uint SLOTS = 256 / THREADS_PER_ROW;

// Numbered as etna::reduce::Kind.
const uint SUM = 0, MEAN = 1, PROD = 2, MAX = 3, MIN = 4, ARGMAX = 5, ARGMIN = 6, LOGSUMEXP = 7, VAR = 8, STD = 9,
           NORM = 10;

// a: total, best or mean; b: Σ exp or Σ squares; c: count, or the factor of the squared elements; at: index of the
// best, or the count.
struct State {
  T a, b, c;
  uint at;
};
ETNA_BUFFER_ALIGNED(States, State, 8);

layout(push_constant, scalar) uniform Push {
  uvec2 x, y;
  uint outputs, count, chunk_length, groups;  // elements per output, elements per chunk, workgroups per chunk
  uint kept_inner, reduced_inner;       // sizes of the inner dimensions
  uvec2 kept_strides, reduced_strides;  // outer, inner
  float divisor;
  uint chunks;
#ifdef ETNA_PROLOGUE
  ETNA_PROLOGUE_FIELDS
#endif
} p;

// Elements of x: one, or four from i on if `count` is nonzero. A generated kernel
// (device/internal/vulkan/executable/fusion/) computes them from the inputs of x instead.
#ifdef ETNA_PROLOGUE
#include "prologue.glsl"
T load_x(uint i) { return T(prologue(i)); }
#ifdef T_FLOAT
vec4 load_four(uint i, uint count) { return count == 0 ? vec4(0.0) : prologue_four(i); }
#endif
#else
T load_x(uint i) { return load_value(p.x, i, X_DTYPE); }
#ifdef T_FLOAT
vec4 load_four(uint i, uint count) { return load_vector(p.x, i, count, X_DTYPE, 4); }
#endif
#endif

const bool ARG = KIND == ARGMAX || KIND == ARGMIN;
const bool LARGEST = KIND == MAX || KIND == ARGMAX || KIND == LOGSUMEXP;
const uint NOWHERE = 0xffffffffu;

#ifdef T_FLOAT
bool is_nan(T a) { return m_isnan(a); }
#else
bool is_nan(T a) { return false; }
#endif

State initial() {
  State s = State(ZERO, ZERO, ZERO, NOWHERE);
  if (KIND == PROD) s.a = ONE;
  if (KIND == MAX || KIND == ARGMAX || KIND == LOGSUMEXP) s.a = LOWEST;
  if (KIND == MIN || KIND == ARGMIN) s.a = HIGHEST;
#ifdef T_FLOAT
  if (KIND == STD || KIND == NORM) s.c = kUp, s.at = 0;
#endif
  return s;
}

bool beats(T x, T best) { return (LARGEST ? less(best, x) : less(x, best)) || (is_nan(x) && !is_nan(best)); }

#ifdef T_FLOAT
// Rescales Σ exp(x - largest) to a larger maximum; it stays 0 while only -inf was seen.
void raise(inout State s, T largest) {
  if (!beats(largest, s.a)) return;
  s.b = s.b > 0.0 ? s.b * exp(s.a - largest) : 0.0;
  s.a = largest;
}
#endif

#ifdef T_FLOAT
// Converts the sum of squares to a smaller factor.
void rescale(inout State s, float factor) {
  if (!(factor < s.c)) return;
  float by = factor / s.c;
  s.b = s.b * by * by;
  s.c = factor;
}
#endif

void take(inout State s, T x, uint i) {
  if (KIND == SUM || KIND == MEAN) s.a = plus(s.a, x);
  if (KIND == PROD) s.a = times(s.a, x);
  if (KIND == MAX || KIND == MIN) s.a = beats(x, s.a) ? x : s.a;
  if (ARG && (s.at == NOWHERE || beats(x, s.a))) {
    s.a = x;
    s.at = i;
  }
#ifdef T_FLOAT
  if (KIND == LOGSUMEXP) {
    raise(s, x);
    if (s.a != LOWEST) s.b += exp(x - s.a);
  }
  if (KIND == VAR) {
    s.c += 1.0;
    float d = x - s.a;
    s.a += d / s.c;
    s.b += d * (x - s.a);
  }
  if (KIND == NORM) {
    rescale(s, squares_scale(abs(x)));
    s.b += (x * s.c) * (x * s.c);
  }
  if (KIND == STD) {
    ++s.at;
    float d = x - s.a;
    rescale(s, squares_scale(abs(d)));
    s.a += d / float(s.at);
    s.b += (d * s.c) * ((x - s.a) * s.c);
  }
#endif
}

#ifdef T_FLOAT
// Elements i ... i + 3.
void take_four(inout State s, vec4 x, uint i) {
  if (KIND == SUM || KIND == MEAN) {
    s.a += (x.x + x.y) + (x.z + x.w);
  } else if (KIND == LOGSUMEXP) {
    raise(s, m_max(m_max(x.x, x.y), m_max(x.z, x.w)));
    if (s.a != LOWEST) s.b += (exp(x.x - s.a) + exp(x.y - s.a)) + (exp(x.z - s.a) + exp(x.w - s.a));
  } else if (KIND == NORM) {
    vec4 size = abs(x);
    rescale(s, squares_scale(max(max(size.x, size.y), max(size.z, size.w))));
    s.b += dot(x * s.c, x * s.c);
  } else {
    [[unroll]] for (uint c = 0; c < 4; ++c) take(s, x[c], i + c);
  }
}
#endif

// Merges states of disjoint elements, in any order: among equals the lower index wins.
void merge(inout State s, State o) {
  if (KIND == SUM || KIND == MEAN) s.a = plus(s.a, o.a);
  if (KIND == PROD) s.a = times(s.a, o.a);
  if (KIND == MAX || KIND == MIN) s.a = beats(o.a, s.a) ? o.a : s.a;
  if (ARG && o.at != NOWHERE && (s.at == NOWHERE || beats(o.a, s.a) || (!beats(s.a, o.a) && o.at < s.at))) s = o;
#ifdef T_FLOAT
  if (KIND == LOGSUMEXP) {
    raise(s, o.a);
    if (o.b > 0.0) s.b += o.b * exp(o.a - s.a);
  }
  if (KIND == VAR && o.c > 0.0) {
    float both = s.c + o.c, d = o.a - s.a;
    s.a += d * (o.c / both);
    s.b += o.b + d * d * (s.c * o.c / both);
    s.c = both;
  }
  if (KIND == NORM || (KIND == STD && o.at > 0)) {
    float n = float(s.at), m = float(o.at), d = KIND == STD && s.at > 0 ? o.a - s.a : 0.0;
    rescale(s, min(o.c, squares_scale(abs(d))));
    rescale(o, s.c);
    s.b += o.b;
    if (KIND == STD) {
      s.b += (d * s.c) * (d * s.c) * (n * m / (n + m));
      s.a = s.at > 0 ? s.a + d * (m / (n + m)) : o.a;
      s.at += o.at;
    }
  }
#endif
}

void finish(uint output_index, State s) {
  if (TO_STATES != 0) return;
  T y = s.a;
  if (ARG) {
    BufferWords(p.y).v[output_index] = uvec2(s.at, 0);
    return;
  }
#ifdef T_FLOAT
  if (KIND == LOGSUMEXP && m_isfinite(s.a)) y = s.a + log(s.b);
  if (KIND == MEAN || KIND == VAR) {
    float total = KIND == VAR ? s.b : s.a;
    float nan = uintBitsToFloat(0x7fc00000u);
    y = p.divisor > 0.0 ? total / p.divisor : total > 0.0 ? HIGHEST : total < 0.0 ? LOWEST : nan;
  }
  if (KIND == NORM) y = sqrt(s.b) / s.c;
  if (KIND == STD) {
    y = p.divisor > 0.0 ? sqrt(s.b / p.divisor) / s.c : s.b > 0.0 ? HIGHEST : uintBitsToFloat(0x7fc00000u);
  }
#endif
  store_value(p.y, output_index, Y_DTYPE, y);
}

uint reduced_offset(uint i) {
  if (WIDTH != 0) return i * p.reduced_strides.y;
  return i / p.reduced_inner * p.reduced_strides.x + i % p.reduced_inner * p.reduced_strides.y;
}

shared State states[256];

void main() {
  uint group = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
  uint chunk = group / p.groups;
  if (chunk >= p.chunks) return;
  uint t = gl_LocalInvocationID.x;
  uint row_thread = COLUMNS != 0 ? t / SLOTS : t % THREADS_PER_ROW;
  uint slot = COLUMNS != 0 ? t % SLOTS : t / THREADS_PER_ROW;
  uint output_index = group % p.groups * SLOTS + slot;
  bool there = output_index < p.outputs;

  State s = initial();
  if (there) {
    uint begin = chunk * p.chunk_length, end = min(begin + p.chunk_length, p.count), i = begin + row_thread;
    if (FROM_STATES != 0) {
      for (; i < end; i += THREADS_PER_ROW) merge(s, States(p.x).v[i * p.outputs + output_index]);
    } else {
      uint base = output_index / p.kept_inner * p.kept_strides.x + output_index % p.kept_inner * p.kept_strides.y;
      T shift = (KIND == VAR || KIND == STD) && i < end ? load_x(base) : ZERO;
#ifdef T_FLOAT
      if (WIDTH == 4) {
        const uint apart = 4 * THREADS_PER_ROW;
        i = begin + 4 * row_thread;
        for (; i < end; i += 4 * apart) {
          vec4 x[4];
          [[unroll]] for (uint k = 0; k < 4; ++k) {
            uint count = i + k * apart < end ? 4 : 0;
            x[k] = load_four(base + i + k * apart, count);
          }
          [[unroll]] for (uint k = 0; k < 4; ++k) {
            if (i + k * apart < end) take_four(s, x[k] - shift, i + k * apart);
          }
        }
      }
#endif
      for (; WIDTH != 4 && i + 3 * THREADS_PER_ROW < end; i += 4 * THREADS_PER_ROW) {
        T x0 = load_x(base + reduced_offset(i));
        T x1 = load_x(base + reduced_offset(i + THREADS_PER_ROW));
        T x2 = load_x(base + reduced_offset(i + 2 * THREADS_PER_ROW));
        T x3 = load_x(base + reduced_offset(i + 3 * THREADS_PER_ROW));
        take(s, x0 - shift, i);
        take(s, x1 - shift, i + THREADS_PER_ROW);
        take(s, x2 - shift, i + 2 * THREADS_PER_ROW);
        take(s, x3 - shift, i + 3 * THREADS_PER_ROW);
      }
      for (; WIDTH != 4 && i < end; i += THREADS_PER_ROW) take(s, load_x(base + reduced_offset(i)) - shift, i);
    }
  }
  if (THREADS_PER_ROW > 1) {
    states[t] = s;
    barrier();
    uint apart = COLUMNS != 0 ? SLOTS : 1;
    for (uint half_threads = THREADS_PER_ROW / 2; half_threads > 0; half_threads /= 2) {
      if (row_thread < half_threads) {
        merge(s, states[t + half_threads * apart]);
        states[t] = s;
      }
      barrier();
    }
  }
  if (!there || row_thread != 0) return;
  if (TO_STATES != 0) States(p.y).v[chunk * p.outputs + output_index] = s;
  else finish(output_index, s);
}
