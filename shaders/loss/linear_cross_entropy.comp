#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
// Softmax cross-entropy of a chunk of logits, and its gradient, which overwrites them: the step between the gemms of
// linear_cross_entropy. Bytes-bound: logits are read once and written once, 16 bytes per access. There are two ways:
//   - ROWS: a workgroup owns a row and keeps it in registers. The row fills a multiprocessor's registers, so no other
//     workgroup's loads hide its arithmetic, which is kept short. The maximum of a row comes first, then the sums of
//     exponentials relative to it, which need no rescaling. 2.1 TB/s on an H200 with 33,278 classes.
//   - FROM_TILES: the maximum and the sums of each tile of columns are there already, from the epilogue of the gemm
//     (shaders/sm90/logits.cuh) or, for rows that do not fit the registers, from TILES. A workgroup combines those of
//     its row, and needs few registers, so that many of them share a multiprocessor.
// Columns past the end count as -infinity and add nothing. The target's column is corrected in the one vector that
// holds it.
//
// Threads are reduced through shared memory in two steps, always in the same order. The columns between `classes` and
// `stride` are set to 0, so that gemms may read whole vectors. The gradient is multiplied by `factor`, a power of two
// that keeps small probabilities from underflowing in f16; the gemms that follow divide by it.
//
// COUNT computes the number of rows that count, and the divisor of the loss; TOTAL adds the losses of the rows. Both
// are one workgroup. A target outside [0, classes) that is not ignore_index makes the loss and the gradient of its row
// NaN, and the row's workgroup reports it.
//
// variant: linear_cross_entropy ROWS THREADS=512
// variant: linear_cross_entropy_narrow ROWS THREADS=256
// variant: linear_cross_entropy_tiles TILES THREADS=256
// variant: linear_cross_entropy_from_tiles FROM_TILES THREADS=256
// variant: linear_cross_entropy_count COUNT THREADS=256
// variant: linear_cross_entropy_total TOTAL THREADS=256

#include "index.glsl"
#include "math.glsl"

layout(local_size_x = THREADS) in;
layout(constant_id = 0) const uint DTYPE = 1;
layout(constant_id = 1) const uint TARGET_DTYPE = 4;
layout(constant_id = 2) const uint MEAN = 1;
layout(constant_id = 3) const uint SMOOTHED = 0;
layout(constant_id = 4) const uint GRADIENT = 1;  // 0: computes only the loss, and logits stay unchanged
layout(constant_id = 5) const uint ELEMENTS_PER_THREAD = 1;      // vectors per thread

layout(push_constant, scalar) uniform Push {
  uvec2 logits, target;  // of the chunk; for COUNT and TOTAL of all rows
  uvec2 losses;          // [rows]
  uvec2 divisor;         // [2]: 1/count (for sums: 1), or 0 if no row counts; count
  uvec2 loss;            // []
  uvec2 tiles;           // [rows, tiles_a_row, 3]: maximum, sum of exponentials relative to it, sum of logits
  uvec2 index_errors;
  uvec2 ignore_index;    // low and high word
  uint rows, classes, stride;
  uint first_row;        // of the chunk
  uint tiles_a_row;
  float smoothing, factor;
} p;

ETNA_BUFFER_ALIGNED(BufferVectors, uvec4, 16);

const uint IGNORED = 0, COUNTED = 1, WRONG = 2;
float not_a_number() { return uintBitsToFloat(0x7fc00000u); }
float minus_infinity() { return -uintBitsToFloat(0x7f800000u); }

uvec2 target_u32s(uint row) { return load_index_u32s(p.target, row, TARGET_DTYPE); }
uint kind_of(uvec2 target) {
  if (target == p.ignore_index) return IGNORED;
  return index_inside(target, p.classes) ? COUNTED : WRONG;
}

#if defined(ROWS) || defined(TILES) || defined(FROM_TILES)
const uint PER = DTYPE == F32 ? 4 : 8;  // elements per vector

float element(uvec4 v, uint i) {
  if (DTYPE == F32) return uintBitsToFloat(v[i & 3u]);
  uint bits = (v[i / 2] >> (i % 2 * 16)) & 0xffffu;
  return DTYPE == F16 ? half_to_float(bits) : bfloat16_to_float(bits);
}
uint packed(float low, float high) {
  return DTYPE == F16 ? floats_to_halves(vec2(low, high)) : float_to_bfloat16(low) | float_to_bfloat16(high) << 16;
}

// A vector of the row in which columns past the classes are -infinity.
uvec4 ended(uvec4 vector, uint v) {
  if (v * PER + PER <= p.classes) return vector;
  [[unroll]] for (uint i = 0; i < PER; ++i) {
    if (v * PER + i < p.classes) continue;
    if (DTYPE == F32) vector[i & 3u] = 0xff800000u;
    else vector[i / 2] = bitfieldInsert(vector[i / 2], DTYPE == F16 ? 0xfc00u : 0xff80u, int(i % 2 * 16), 16);
  }
  return vector;
}

float largest(float most, uvec4 vector) {
  [[unroll]] for (uint i = 0; i < PER; ++i) most = max(most, element(vector, i));
  return most;
}

// Adds exponentials relative to `onto`, and the elements themselves if smoothing needs them. A NaN reaches the sums
// even if max() dropped it.
vec2 added(vec2 sums, uvec4 vector, uint v, float onto) {
  [[unroll]] for (uint i = 0; i < PER; ++i) {
    float x = element(vector, i);
    sums.x += exp(x - onto);
    if (SMOOTHED != 0 && v * PER + i < p.classes) sums.y += x;
  }
  return sums;
}

const uint GROUPS = 32;
shared vec2 states[THREADS], groups[GROUPS];

// Reduces over all threads: the maximum (in x) or the sums.
vec2 reduced(vec2 mine, bool sums) {
  uint id = gl_LocalInvocationID.x;
  states[id] = mine;
  barrier();
  if (id < GROUPS) {
    [[unroll]] for (uint k = 1; k < THREADS / GROUPS; ++k) {
      vec2 other = states[id + k * GROUPS];
      mine = sums ? mine + other : max(mine, other);
    }
    groups[id] = mine;
  }
  barrier();
  mine = groups[0];
  [[unroll]] for (uint k = 1; k < GROUPS; ++k) mine = sums ? mine + groups[k] : max(mine, groups[k]);
  return mine;
}

// The gradient of a vector: exp(x - logsumexp) · factor, minus the shares of the target and of smoothing. For 16 bits,
// factor and the exponential's base are one addend of x.
uvec4 gradient(uvec4 vector, uint v, float logsumexp, float factor, uint target, float rest, float wanted) {
  const float LOG2_E = 1.44269504;
  float g[8], addend = log2(factor) - logsumexp * LOG2_E;
  [[unroll]] for (uint i = 0; i < PER; ++i) {
    float x = element(vector, i);
    g[i] = DTYPE == F32 ? exp(x - logsumexp) * factor : exp2(fma(x, LOG2_E, addend));
  }
  if (SMOOTHED != 0 || target / PER == v || v * PER + PER > p.classes) {
    [[unroll]] for (uint i = 0; i < PER; ++i) {
      uint column = v * PER + i;
      g[i] = column < p.classes ? g[i] - (column == target ? wanted : rest) * factor : 0.0;
    }
  }
  uvec4 to;
  [[unroll]] for (uint i = 0; i < 4; ++i) to[i] = DTYPE == F32 ? floatBitsToUint(g[i]) : packed(g[2 * i], g[2 * i + 1]);
  return to;
}

// What exponentials of a row, or a tile of it, are relative to: its largest logit, or 0 if all are -infinity.
float base_of(float most) { return most == minus_infinity() ? 0.0 : most; }

// Writes the loss of a row, by one thread.
void store_loss(uint row, uint kind, uvec2 target, float logsumexp, float total) {
  if (kind == WRONG) report_index(p.index_errors, p.first_row + row, target, p.classes);
  float loss = kind == IGNORED ? 0.0 : not_a_number();
  if (kind == COUNTED) {
    loss = logsumexp - load_float(p.logits, row * p.stride + target.x, DTYPE);
    if (SMOOTHED != 0) loss = (1.0 - p.smoothing) * loss + p.smoothing * (logsumexp - total / float(p.classes));
  }
  BufferF32(p.losses).v[row] = loss;
}

#ifdef TILES
void main() {
  uint group = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x, id = gl_LocalInvocationID.x;
  uint row = group / p.tiles_a_row, tile = group - row * p.tiles_a_row;
  if (row >= p.rows) return;
  uint vectors = p.stride / PER, base = row * vectors;
  uvec4 tile_vectors[ELEMENTS_PER_THREAD];
  float most = minus_infinity();
  [[unroll]] for (uint k = 0; k < ELEMENTS_PER_THREAD; ++k) {
    uint v = (tile * ELEMENTS_PER_THREAD + k) * THREADS + id;
    tile_vectors[k] = ended(BufferVectors(p.logits).v[base + min(v, vectors - 1)], v);
    most = largest(most, tile_vectors[k]);
  }
  most = reduced(vec2(most), false).x;
  vec2 sums = vec2(0.0);
  [[unroll]] for (uint k = 0; k < ELEMENTS_PER_THREAD; ++k)
    sums = added(sums, tile_vectors[k], (tile * ELEMENTS_PER_THREAD + k) * THREADS + id, base_of(most));
  sums = reduced(sums, true);
  if (id != 0) return;
  BufferF32(p.tiles).v[group * 3] = most;
  BufferF32(p.tiles).v[group * 3 + 1] = sums.x;
  BufferF32(p.tiles).v[group * 3 + 2] = sums.y;
}
#else
void main() {
  uint row = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x, id = gl_LocalInvocationID.x;
  if (row >= p.rows) return;
  uint vectors = p.stride / PER, base = row * vectors;
  float most = minus_infinity();
  vec2 sums = vec2(0.0);
#ifdef ROWS
  uvec4 row_vectors[ELEMENTS_PER_THREAD];
  [[unroll]] for (uint k = 0; k < ELEMENTS_PER_THREAD; ++k) {
    uint v = min(k * THREADS + id, vectors - 1);
    row_vectors[k] = BufferVectors(p.logits).v[base + v];
  }
  [[unroll]] for (uint k = 0; k < ELEMENTS_PER_THREAD; ++k) {
    row_vectors[k] = ended(row_vectors[k], k * THREADS + id);
    most = largest(most, row_vectors[k]);
  }
  most = reduced(vec2(most), false).x;
  [[unroll]] for (uint k = 0; k < ELEMENTS_PER_THREAD; ++k)
    sums = added(sums, row_vectors[k], k * THREADS + id, base_of(most));
#else
  uint first = row * p.tiles_a_row;
  for (uint tile = id; tile < p.tiles_a_row; tile += THREADS)
    most = max(most, BufferF32(p.tiles).v[(first + tile) * 3]);
  most = reduced(vec2(most), false).x;
  for (uint tile = id; tile < p.tiles_a_row; tile += THREADS) {
    uint at = (first + tile) * 3;
    sums.x += BufferF32(p.tiles).v[at + 1] * exp(BufferF32(p.tiles).v[at] - base_of(most));
    if (SMOOTHED != 0) sums.y += BufferF32(p.tiles).v[at + 2];
  }
#endif
  sums = reduced(sums, true);
  uvec2 target = target_u32s(row);
  uint kind = kind_of(target);
  float logsumexp = base_of(most) + log(sums.x);
  if (id == 0) store_loss(row, kind, target, logsumexp, sums.y);
  if (GRADIENT == 0) return;
  barrier();  // thread 0 has read the target's logit
  float factor = kind == WRONG ? not_a_number() : p.factor;
  float rest = p.smoothing / float(p.classes), wanted = rest + (1.0 - p.smoothing);
#ifdef ROWS
  [[unroll]] for (uint k = 0; k < ELEMENTS_PER_THREAD; ++k) {
    uint v = k * THREADS + id;
    uvec4 to = gradient(row_vectors[k], v, logsumexp, factor, target.x, rest, wanted);
    if (v < vectors) BufferVectors(p.logits).v[base + v] = kind == IGNORED ? uvec4(0) : to;
  }
#else
  // ELEMENTS_PER_THREAD vectors are on their way at a time.
  for (uint from = id; from < vectors; from += ELEMENTS_PER_THREAD * THREADS) {
    uvec4 some[ELEMENTS_PER_THREAD];
    [[unroll]] for (uint k = 0; k < ELEMENTS_PER_THREAD; ++k)
      some[k] = BufferVectors(p.logits).v[base + min(from + k * THREADS, vectors - 1)];
    [[unroll]] for (uint k = 0; k < ELEMENTS_PER_THREAD; ++k) {
      uint v = from + k * THREADS;
      uvec4 to = gradient(ended(some[k], v), v, logsumexp, factor, target.x, rest, wanted);
      if (v < vectors) BufferVectors(p.logits).v[base + v] = kind == IGNORED ? uvec4(0) : to;
    }
  }
#endif
}
#endif
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
    if (target_u32s(row) != p.ignore_index) mine += 1.0;
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
