#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
// Softmax cross-entropy of a chunk of logits and its gradient, which replaces them: what stands between the products of
// linear_cross_entropy. Bytes-bound: a row is read once into registers, sixteen bytes a load, and written once. Rows that do not
// fit (HELD = 0) are read again, from the cache as a rule: a chunk is made no larger than that.
//
// A workgroup owns a row. Each thread takes the largest of its elements, then the sum of exponentials below it; pairs of both are
// joined by a tree in shared memory, always in the same order. The columns between `classes` and `stride` are written 0, so that
// products may read whole vectors. The gradient is multiplied by `factor`, a power of two that keeps small probabilities
// from vanishing in f16; the products behind divide by it.
//
// COUNT finds the rows that count, and what the loss is divided by; TOTAL adds the rows' losses up. Both are one workgroup.
// A target outside [0, classes) that is not ignore_index makes the loss and the gradient of its row NaN.
//
// variant: linear_cross_entropy ROWS THREADS=512
// variant: linear_cross_entropy_narrow ROWS THREADS=256
// variant: linear_cross_entropy_count COUNT THREADS=256
// variant: linear_cross_entropy_total TOTAL THREADS=256

#include "dtype.glsl"
#include "math.glsl"

layout(local_size_x = THREADS) in;
layout(constant_id = 0) const uint DTYPE = 1;
layout(constant_id = 1) const uint TARGET_DTYPE = 4;
layout(constant_id = 2) const uint MEAN = 1;
layout(constant_id = 3) const uint SMOOTHED = 0;
layout(constant_id = 4) const uint GRADIENT = 1;  // 0: the loss alone is wanted, logits stay
layout(constant_id = 5) const uint HELD = 1;      // vectors a thread holds

layout(push_constant, scalar) uniform Push {
  uvec2 logits, target;  // of the chunk; COUNT and TOTAL: of all rows
  uvec2 losses;          // [rows]
  uvec2 divisor;         // [2]: 1/count (sums: 1), or 0 where no row counts; count
  uvec2 loss;            // []
  uvec2 ignore_index;    // low and high word
  uint rows, classes, stride;
  float smoothing, factor;
} p;

ETNA_BUFFER_ALIGNED(BufferVectors, uvec4, 16);

const uint IGNORED = 0, COUNTED = 1, WRONG = 2;
float not_a_number() { return uintBitsToFloat(0x7fc00000u); }
float minus_infinity() { return -uintBitsToFloat(0x7f800000u); }

uvec2 target_words(uint row) {
  if (TARGET_DTYPE == I64) return BufferWords(p.target).v[row];
  uint low = uint(load_int(p.target, row, TARGET_DTYPE));
  return uvec2(low, int(low) < 0 ? 0xffffffffu : 0u);
}
uint kind_of(uvec2 words) {
  if (words == p.ignore_index) return IGNORED;
  return words.y == 0 && words.x < p.classes ? COUNTED : WRONG;
}

#ifdef ROWS
const uint PER = DTYPE == F32 ? 4 : 8;  // elements of a vector
const uint ARRAY = HELD > 0 ? HELD : 1;

float element(uvec4 v, uint i) {
  if (DTYPE == F32) return uintBitsToFloat(v[i & 3u]);
  uint bits = (v[i / 2] >> (i % 2 * 16)) & 0xffffu;
  return DTYPE == F16 ? half_to_float(bits) : bfloat16_to_float(bits);
}
uint packed(float low, float high) {
  return DTYPE == F16 ? float_to_half(low) | float_to_half(high) << 16 : float_to_bfloat16(low) | float_to_bfloat16(high) << 16;
}

// Of some elements: the largest, the sum of exponentials below it, their sum. A NaN is in the sums, whatever max() makes of it.
shared vec4 states[THREADS];

float rescale(float m, float onto) { return m == onto ? 1.0 : exp(m - onto); }
vec4 join(vec4 a, vec4 b) {
  float onto = max(a.x, b.x);
  return vec4(onto, a.y * rescale(a.x, onto) + b.y * rescale(b.x, onto), a.z + b.z, 0.0);
}

// What vector `v` of the row adds; columns past the classes add nothing.
vec4 grown(vec4 state, uvec4 vector, uint v) {
  float x[8], onto = state.x;
  [[unroll]] for (uint i = 0; i < PER; ++i) {
    bool there = v * PER + i < p.classes;
    x[i] = there ? element(vector, i) : minus_infinity();
    onto = max(onto, x[i]);
    if (SMOOTHED != 0 && there) state.z += x[i];
  }
  state.y *= rescale(state.x, onto);
  [[unroll]] for (uint i = 0; i < PER; ++i) state.y += x[i] == minus_infinity() ? 0.0 : exp(x[i] - onto);
  state.x = onto;
  return state;
}

void main() {
  uint row = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x, id = gl_LocalInvocationID.x;
  if (row >= p.rows) return;
  uint vectors = p.stride / PER, base = row * vectors;
  uvec4 held[ARRAY];
  vec4 state = vec4(minus_infinity(), 0.0, 0.0, 0.0);
  if (HELD > 0) {
    [[unroll]] for (uint k = 0; k < HELD; ++k) {
      uint v = k * THREADS + id;
      if (v < vectors) held[k] = BufferVectors(p.logits).v[base + v];
    }
    [[unroll]] for (uint k = 0; k < HELD; ++k) {
      uint v = k * THREADS + id;
      if (v < vectors) state = grown(state, held[k], v);
    }
  } else {
    for (uint v = id; v < vectors; v += THREADS) state = grown(state, BufferVectors(p.logits).v[base + v], v);
  }
  states[id] = state;
  barrier();
  for (uint half_size = THREADS / 2; half_size > 0; half_size >>= 1) {
    if (id < half_size) states[id] = join(states[id], states[id + half_size]);
    barrier();
  }
  state = states[0];
  uvec2 words = target_words(row);
  uint kind = kind_of(words);
  float logsumexp = state.x + log(state.y);
  if (id == 0) {
    float loss = kind == IGNORED ? 0.0 : not_a_number();
    if (kind == COUNTED) {
      loss = logsumexp - load_float(p.logits, row * p.stride + words.x, DTYPE);
      if (SMOOTHED != 0) loss = (1.0 - p.smoothing) * loss + p.smoothing * (logsumexp - state.z / float(p.classes));
    }
    BufferF32(p.losses).v[row] = loss;
  }
  if (GRADIENT == 0) return;
  barrier();  // thread 0 has read the target's logit
  float factor = kind == WRONG ? not_a_number() : p.factor;
  float rest = p.smoothing / float(p.classes), wanted = rest + (1.0 - p.smoothing);
#define WRITE(vector, v)                                                                                               \
  {                                                                                                                    \
    float g[8];                                                                                                        \
    [[unroll]] for (uint i = 0; i < PER; ++i) {                                                                        \
      uint column = (v) * PER + i;                                                                                     \
      g[i] = (exp(element(vector, i) - logsumexp) - (column == words.x ? wanted : rest)) * factor;                     \
      if (kind == IGNORED || column >= p.classes) g[i] = 0.0;                                                          \
    }                                                                                                                  \
    uvec4 to;                                                                                                          \
    [[unroll]] for (uint i = 0; i < 4; ++i) to[i] = DTYPE == F32 ? floatBitsToUint(g[i]) : packed(g[2 * i], g[2 * i + 1]); \
    BufferVectors(p.logits).v[base + (v)] = to;                                                                        \
  }
  if (HELD > 0) {
    [[unroll]] for (uint k = 0; k < HELD; ++k) {
      uint v = k * THREADS + id;
      if (v < vectors) WRITE(held[k], v)
    }
  } else {
    for (uint v = id; v < vectors; v += THREADS) {
      uvec4 vector = BufferVectors(p.logits).v[base + v];
      WRITE(vector, v)
    }
  }
}
#else

shared float sums[THREADS];

float all(float mine) {
  uint id = gl_LocalInvocationID.x;
  sums[id] = mine;
  barrier();
  for (uint half_size = THREADS / 2; half_size > 0; half_size >>= 1) {
    if (id < half_size) sums[id] += sums[id + half_size];
    barrier();
  }
  return sums[0];
}

void main() {
  float mine = 0.0;
  for (uint row = gl_LocalInvocationID.x; row < p.rows; row += THREADS) {
#ifdef COUNT
    if (target_words(row) != p.ignore_index) mine += 1.0;
#else
    mine += BufferF32(p.losses).v[row];
#endif
  }
  float sum = all(mine);
  if (gl_LocalInvocationID.x != 0) return;
#ifdef COUNT
  BufferF32(p.divisor).v[0] = MEAN == 0 ? 1.0 : sum > 0.0 ? 1.0 / sum : 0.0;
  BufferF32(p.divisor).v[1] = sum;
#else
  float count = BufferF32(p.divisor).v[1];
  BufferF32(p.loss).v[0] = MEAN == 0 ? sum : count > 0.0 ? sum / count : not_a_number();
#endif
}
#endif
