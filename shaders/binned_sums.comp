#version 460
#extension GL_GOOGLE_include_directive : require
// Sums of many numbers into a list: y[place[i]] += x[i], with the same bits in every run although threads add in any
// order. The order cannot matter, because the sums are of integers: bin_exponents finds the largest exponent that goes
// to each element of y, and bin_sums adds the numbers as multiples of the last of 31 bits below it, in 64 bits. That
// keeps 7 bits more of each number than a float has; the sum is rounded once.
//
// Numbers are first brought together by buckets of 2048 elements of y (bin_count, bin_offsets, bin_move), so that a
// workgroup adds in shared memory. It takes a chunk of at most 65536 numbers. Most buckets have one chunk; those that
// have more share exponents and sums in global memory, and bin_results ends them.
// Bytes-bound: 40 bytes a number, most of them in runs.
//
// variant: bin_count COUNT
// variant: bin_offsets OFFSETS
// variant: bin_move MOVE T=float T_FLOAT
// variant: bin_exponents SUMS EXPONENTS T=float T_FLOAT
// variant: bin_sums SUMS T=float T_FLOAT
// variant: bin_results RESULTS T=float T_FLOAT

#include "dtype.glsl"

layout(local_size_x = 256) in;
const uint THREADS = 256, ELEMENTS = 16, TILE = THREADS * ELEMENTS, CHUNK = 65536;
const uint BINS = 2048, BIN_BITS = 11, MOST_BUCKETS = 1024;

ETNA_BUFFER(BufferU32, uint);
uint group_index() { return gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x; }

// The plan: how many numbers go to each bucket, later where its next one goes; where its numbers begin; how many chunks
// there are before.
const uint CURSORS = 0, STARTS = MOST_BUCKETS, CHUNKS = 2 * MOST_BUCKETS + 1;

#ifdef COUNT
layout(push_constant, scalar) uniform Push {
  uvec2 places, plan;
  uint n, tiles, groups;
} p;

shared uint counts[MOST_BUCKETS];

void main() {
  uint t = gl_LocalInvocationID.x;
  if (group_index() >= p.groups) return;
  for (uint b = t; b < MOST_BUCKETS; b += THREADS) counts[b] = 0;
  barrier();
  for (uint tile = group_index(); tile < p.tiles; tile += p.groups) {
    for (uint k = 0; k < ELEMENTS; ++k) {
      uint i = tile * TILE + k * THREADS + t;
      if (i < p.n) atomicAdd(counts[BufferU32(p.places).v[i] >> BIN_BITS], 1u);
    }
  }
  barrier();
  for (uint b = t; b < MOST_BUCKETS; b += THREADS) {
    if (counts[b] != 0) atomicAdd(BufferU32(p.plan).v[CURSORS + b], counts[b]);
  }
}
#endif

#ifdef OFFSETS
#include "prefix.glsl"

layout(push_constant, scalar) uniform Push {
  uvec2 plan;
} p;

void main() {
  const uint OWN = MOST_BUCKETS / THREADS;
  uint first = gl_LocalInvocationID.x * OWN, counts[OWN], numbers = 0, chunks = 0, all_numbers, all_chunks;
  for (uint k = 0; k < OWN; ++k) {
    counts[k] = BufferU32(p.plan).v[CURSORS + first + k];
    numbers += counts[k];
    chunks += (counts[k] + CHUNK - 1) / CHUNK;
  }
  numbers = sum_before(numbers, all_numbers);
  chunks = sum_before(chunks, all_chunks);
  for (uint k = 0; k < OWN; ++k) {
    BufferU32(p.plan).v[CURSORS + first + k] = numbers;
    BufferU32(p.plan).v[STARTS + first + k] = numbers;
    BufferU32(p.plan).v[CHUNKS + first + k] = chunks;
    numbers += counts[k];
    chunks += (counts[k] + CHUNK - 1) / CHUNK;
  }
  if (gl_LocalInvocationID.x == THREADS - 1) {
    BufferU32(p.plan).v[STARTS + MOST_BUCKETS] = numbers;
    BufferU32(p.plan).v[CHUNKS + MOST_BUCKETS] = chunks;
  }
}
#endif

#ifdef MOVE
#include "prefix.glsl"

layout(constant_id = 0) const uint DTYPE = 1;

layout(push_constant, scalar) uniform Push {
  uvec2 places, x, plan, pairs;
  uint n, tiles;
} p;

shared uint words[TILE];
shared uint counts[MOST_BUCKETS];  // of the tile; then where a bucket's run starts in the tile
shared uint to[MOST_BUCKETS];      // what leads from there to its place among the pairs

void main() {
  uint t = gl_LocalInvocationID.x, tile = group_index();
  if (tile >= p.tiles) return;
  uint start = tile * TILE, count = min(TILE, p.n - start), places[ELEMENTS], ranks[ELEMENTS], all;
  for (uint b = t; b < MOST_BUCKETS; b += THREADS) counts[b] = 0;
  barrier();
  // The order within a bucket is any.
  for (uint k = 0; k < ELEMENTS; ++k) {
    uint i = k * THREADS + t;
    places[k] = i < count ? BufferU32(p.places).v[start + i] : 0u;
    ranks[k] = i < count ? atomicAdd(counts[places[k] >> BIN_BITS], 1u) : 0u;
  }
  barrier();
  const uint OWN = MOST_BUCKETS / THREADS;
  uint own[OWN], sum = 0;
  for (uint k = 0; k < OWN; ++k) {
    own[k] = counts[t * OWN + k];
    sum += own[k];
  }
  uint before = sum_before(sum, all);
  for (uint k = 0; k < OWN; ++k) {
    uint b = t * OWN + k;
    if (own[k] != 0) to[b] = atomicAdd(BufferU32(p.plan).v[CURSORS + b], own[k]) - before;
    counts[b] = before;
    before += own[k];
  }
  barrier();
  for (uint k = 0; k < ELEMENTS; ++k) {
    ranks[k] += counts[places[k] >> BIN_BITS];
    if (k * THREADS + t < count) words[ranks[k]] = places[k];
  }
  barrier();
  for (uint k = 0; k < ELEMENTS; ++k) places[k] = words[k * THREADS + t];
  barrier();
  for (uint k = 0; k < ELEMENTS; ++k) {
    uint i = k * THREADS + t;
    if (i < count) words[ranks[k]] = floatBitsToUint(load_value(p.x, start + i, DTYPE));
  }
  barrier();
  for (uint k = 0; k < ELEMENTS; ++k) {
    uint i = k * THREADS + t;
    if (i < count) BufferWords(p.pairs).v[to[places[k] >> BIN_BITS] + i] = uvec2(places[k] & (BINS - 1), words[i]);
  }
}
#endif

#if defined(SUMS) || defined(RESULTS)
// For each element of y: 0 if nothing goes there, or the largest exponent (biased, 0 to 254) plus one. A number that is
// not finite adds a flag, which no exponent reaches.
const uint PLUS_INFINITY = 256, MINUS_INFINITY = 512, NOT_A_NUMBER = 1024;

// What is added to y for a sum of multiples of 2^(exponent - 157), exponent at least 1.
float result_of(uint state, uvec2 sum) {
  if (state >= 256) {
    if ((state & NOT_A_NUMBER) != 0 || (state & (PLUS_INFINITY | MINUS_INFINITY)) == (PLUS_INFINITY | MINUS_INFINITY)) {
      return uintBitsToFloat(0x7fc00000u);
    }
    return uintBitsToFloat((state & PLUS_INFINITY) != 0 ? 0x7f800000u : 0xff800000u);
  }
  bool negative = (sum.y & 0x80000000u) != 0;
  if (negative) {
    sum = ~sum;
    sum.x += 1;
    if (sum.x == 0) sum.y += 1;
  }
  // 26 bits of which the last says whether anything followed: a float rounds them once.
  int last = sum.y != 0 ? 32 + findMSB(sum.y) : findMSB(sum.x), shift = max(last - 25, 0);
  uint bits = sum.x;
  if (shift >= 32) {
    bits = sum.y >> (shift - 32);
    uint lost = shift > 32 ? sum.y << (64 - shift) : 0u;
    if ((lost | sum.x) != 0) bits |= 1;
  } else if (shift > 0) {
    bits = (sum.x >> shift) | (sum.y << (32 - shift));
    if ((sum.x << (32 - shift)) != 0) bits |= 1;
  }
  // Two factors, since one could be too small for a float.
  int exponent = max(int(state) - 1, 1) - 157 + shift, part = exponent / 2;
  float value = float(bits) * uintBitsToFloat(uint(part + 127) << 23) *
                uintBitsToFloat(uint(exponent - part + 127) << 23);
  return negative ? -value : value;
}
#endif

#ifdef SUMS
layout(constant_id = 0) const uint Y_DTYPE = 1;
layout(constant_id = 1) const uint X_DTYPE = 1;
layout(constant_id = 2) const uint DIRECT = 0;  // one bucket, whose numbers were not moved

layout(push_constant, scalar) uniform Push {
  uvec2 places, x;       // DIRECT
  uvec2 pairs, plan;     // otherwise
  uvec2 y, states, sums;  // states and sums: of buckets of several chunks
  uint n, size;          // numbers; elements of y
} p;

shared uint states[BINS];
#ifndef EXPONENTS
shared uint low[BINS], high[BINS];
#endif

uvec2 pair_at(uint i) {
  if (DIRECT == 0) return BufferWords(p.pairs).v[i];
  return uvec2(BufferU32(p.places).v[i], floatBitsToUint(load_value(p.x, i, X_DTYPE)));
}

void find_exponent(uvec2 pair) {
  uint exponent = (pair.y >> 23) & 255u;
  if (exponent == 255) {
    bool nan = (pair.y & 0x7fffffu) != 0, negative = (pair.y & 0x80000000u) != 0;
    atomicOr(states[pair.x], nan ? NOT_A_NUMBER : negative ? MINUS_INFINITY : PLUS_INFINITY);
  } else if (states[pair.x] < exponent + 1) {
    atomicMax(states[pair.x], exponent + 1);
  }
}

#ifndef EXPONENTS
void add(uvec2 pair) {
  uint state = states[pair.x], exponent = (pair.y >> 23) & 255u;
  if (state >= 256) return;
  // The mantissa's 24 bits at the place that the exponent gives them among 31, rounded to even.
  uint mantissa = (pair.y & 0x7fffffu) | (exponent != 0 ? 0x800000u : 0u);
  int down = int(max(state - 1, 1u)) - int(max(exponent, 1u)) - 7;
  if (down > 25) return;
  if (down <= 0) {
    mantissa <<= -down;
  } else {
    uint halves = mantissa >> (down - 1), rest = mantissa & ((1u << (down - 1)) - 1u);
    mantissa = halves >> 1;
    if ((halves & 1u) != 0 && (rest != 0 || (mantissa & 1u) != 0)) ++mantissa;
  }
  if (mantissa == 0) return;
  bool negative = (pair.y & 0x80000000u) != 0;
  uint word = negative ? ~mantissa + 1 : mantissa, before = atomicAdd(low[pair.x], word);
  uint upper = (negative ? 0xffffffffu : 0u) + (before > ~word ? 1u : 0u);
  if (upper != 0) atomicAdd(high[pair.x], upper);
}
#endif

void main() {
  uint t = gl_LocalInvocationID.x, group = group_index(), bucket = 0, start, end, chunks;
  if (DIRECT != 0) {
    start = group * CHUNK;
    end = min(start + CHUNK, p.n);
    chunks = (p.n + CHUNK - 1) / CHUNK;
    if (start >= p.n) return;
  } else {
    if (group >= BufferU32(p.plan).v[CHUNKS + MOST_BUCKETS]) return;
    // The last bucket with no more chunks before it than this one.
    for (uint step = MOST_BUCKETS / 2; step > 0; step /= 2) {
      if (BufferU32(p.plan).v[CHUNKS + bucket + step] <= group) bucket += step;
    }
    uint first = BufferU32(p.plan).v[CHUNKS + bucket];
    chunks = BufferU32(p.plan).v[CHUNKS + bucket + 1] - first;
    start = BufferU32(p.plan).v[STARTS + bucket] + (group - first) * CHUNK;
    end = min(start + CHUNK, BufferU32(p.plan).v[STARTS + bucket + 1]);
  }
  bool alone = chunks == 1;
  uint base = bucket * BINS;
#ifdef EXPONENTS
  if (alone) return;
#endif
  for (uint b = t; b < BINS; b += THREADS) {
#ifdef EXPONENTS
    states[b] = 0;
#else
    states[b] = !alone && base + b < p.size ? BufferU32(p.states).v[base + b] : 0u;
    low[b] = high[b] = 0;
#endif
  }
  barrier();
#ifndef EXPONENTS
  if (alone)
#endif
  {
    for (uint i = start + t; i < end; i += THREADS) find_exponent(pair_at(i));
    barrier();
  }
#ifdef EXPONENTS
  for (uint b = t; b < BINS; b += THREADS) {
    if (states[b] >= 256) {
      atomicOr(BufferU32(p.states).v[base + b], states[b] & ~255u);
    } else if (states[b] != 0) {
      atomicMax(BufferU32(p.states).v[base + b], states[b]);
    }
  }
#else
  for (uint i = start + t; i < end; i += THREADS) add(pair_at(i));
  barrier();
  for (uint b = t; b < BINS; b += THREADS) {
    uint i = base + b;
    if (states[b] == 0 || i >= p.size) continue;
    if (alone) {
      float value = load_value(p.y, i, Y_DTYPE) + result_of(states[b], uvec2(low[b], high[b]));
      store_value(p.y, i, Y_DTYPE, value);
    } else {
      uint before = atomicAdd(BufferU32(p.sums).v[2 * i], low[b]), upper = high[b] + (before > ~low[b] ? 1u : 0u);
      if (upper != 0) atomicAdd(BufferU32(p.sums).v[2 * i + 1], upper);
    }
  }
#endif
}
#endif

#ifdef RESULTS
layout(constant_id = 0) const uint Y_DTYPE = 1;

layout(push_constant, scalar) uniform Push {
  uvec2 y, states, sums;
  uint size;
} p;

void main() {
  uint i = group_index() * THREADS + gl_LocalInvocationID.x;
  if (i >= p.size) return;
  uint state = BufferU32(p.states).v[i];
  if (state == 0) return;
  float value = load_value(p.y, i, Y_DTYPE) + result_of(state, BufferWords(p.sums).v[i]);
  store_value(p.y, i, Y_DTYPE, value);
}
#endif
