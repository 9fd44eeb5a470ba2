#version 460
#extension GL_GOOGLE_include_directive : require
// Adds many numbers to a list: y[place[i]] += x[i], with the same bits in every run although threads add in any order.
// The order cannot matter, because the sums are of integers: bin_exponents finds the largest exponent among the numbers
// for each element of y, and bin_sums adds the numbers in 64 bits, as multiples of the last of 31 bits below that
// exponent. That keeps 7 bits more of each number than a float has; the sum is rounded once.
//
// Numbers are first sorted into buckets of 2048 elements of y, so that a workgroup adds in shared memory. bin_count
// counts the numbers of a group of tiles in each bucket, bin_offsets adds the counts up over the groups, bin_plan over
// the buckets, and bin_move writes each number, with its place in the bucket, after those before it. bin_sums takes
// chunks of at most 65536 numbers. Most buckets have one chunk; buckets with several share exponents and sums in global
// memory, and bin_results finishes them.
// Each number moves 36 bytes, most of them in runs; shared memory is the bound. Loads are issued 16 or 8 at a time,
// before the first is used.
//
// variant: bin_count COUNT
// variant: bin_index COUNT INDEX
// variant: bin_offsets OFFSETS
// variant: bin_plan PLAN
// variant: bin_move MOVE T=float T_FLOAT
// variant: bin_exponents SUMS EXPONENTS T=float T_FLOAT
// variant: bin_sums SUMS T=float T_FLOAT
// variant: bin_results RESULTS T=float T_FLOAT

#extension GL_EXT_control_flow_attributes : require
#include "dtype.glsl"

layout(local_size_x = 256) in;
const uint THREADS = 256, ELEMENTS = 16, TILE = THREADS * ELEMENTS, CHUNK = 65536;
const uint BINS = 2048, BIN_BITS = 11, MOST_BUCKETS = 1024;

ETNA_BUFFER(BufferU32, uint);
uint group_index() { return gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x; }

// The plan: the first number of each bucket; the number of chunks before it; how many buckets have several.
const uint STARTS = 0, CHUNKS = MOST_BUCKETS + 1, SEVERAL = CHUNKS + MOST_BUCKETS + 1;

#ifdef COUNT
#ifdef INDEX
#include "index.glsl"

layout(constant_id = 0) const uint INDEX_DTYPE = 4;
#endif

layout(push_constant, scalar) uniform Push {
#ifdef INDEX
  uvec2 index, index_errors;
#endif
  uvec2 places, counts;  // counts: [groups, buckets]
  uint n, tiles, tiles_per_group, groups, buckets;
#ifdef INDEX
  uint limit;
#endif
} p;

#ifdef INDEX
#define GIVEN uvec2
GIVEN given_at(uint i) { return load_index_u32s(p.index, i, INDEX_DTYPE); }
uint place_of(GIVEN given, uint i) {
  uint place = checked_index(given, i, p.limit, p.index_errors);
  BufferU32(p.places).v[i] = place;
  return place;
}
#else
#define GIVEN uint
GIVEN given_at(uint i) { return BufferU32(p.places).v[i]; }
uint place_of(GIVEN given, uint i) { return given; }
#endif

shared uint counts[MOST_BUCKETS];

// Groups from the last on: the places that were written last may still be in a cache, and so may those of the first
// groups when bin_move begins. bin_index also checks the indices and writes them as places.
void main() {
  uint t = gl_LocalInvocationID.x, group = p.groups - 1 - group_index();
  if (group_index() >= p.groups) return;
  for (uint b = t; b < MOST_BUCKETS; b += THREADS) counts[b] = 0;
  barrier();
  uint end = min((group + 1) * p.tiles_per_group, p.tiles);
  for (uint tile = group * p.tiles_per_group; tile < end; ++tile) {
    uint first = tile * TILE + t;
    GIVEN given[ELEMENTS];
    [[unroll]] for (uint k = 0; k < ELEMENTS; ++k) given[k] = given_at(min(first + k * THREADS, p.n - 1));
    [[unroll]] for (uint k = 0; k < ELEMENTS; ++k) {
      uint i = first + k * THREADS;
      if (i < p.n) atomicAdd(counts[place_of(given[k], i) >> BIN_BITS], 1u);
    }
  }
  barrier();
  for (uint b = t; b < p.buckets; b += THREADS) BufferU32(p.counts).v[group * p.buckets + b] = counts[b];
}
#endif

#ifdef OFFSETS
layout(push_constant, scalar) uniform Push {
  uvec2 counts, plan;
  uint groups, buckets;
} p;

// A workgroup takes 8 buckets, and for each of them 32 runs of groups at once.
const uint COLUMNS = 8, RUNS = THREADS / COLUMNS;
shared uint sums[THREADS];

void main() {
  uint t = gl_LocalInvocationID.x, b = group_index() * COLUMNS + t % COLUMNS, run = t / COLUMNS;
  uint length = (p.groups + RUNS - 1) / RUNS, first = run * length, end = min(first + length, p.groups), sum = 0;
  if (b >= p.buckets) end = 0;
  for (uint g = first; g < end; ++g) sum += BufferU32(p.counts).v[g * p.buckets + b];
  sums[t] = sum;
  barrier();
  uint before = 0;
  for (uint r = 0; r < run; ++r) before += sums[r * COLUMNS + t % COLUMNS];
  if (run == RUNS - 1 && b < p.buckets) BufferU32(p.plan).v[STARTS + b] = before + sum;
  for (uint g = first; g < end; ++g) {
    uint count = BufferU32(p.counts).v[g * p.buckets + b];
    BufferU32(p.counts).v[g * p.buckets + b] = before;
    before += count;
  }
}
#endif

#ifdef PLAN
#include "prefix.glsl"

layout(push_constant, scalar) uniform Push {
  uvec2 plan, states, sums;  // states and sums are cleared for buckets with several chunks
  uint buckets, size;
} p;

shared uint several[MOST_BUCKETS];

void main() {
  const uint OWN = MOST_BUCKETS / THREADS;
  uint t = thread_index(), first = t * OWN, counts[OWN], numbers = 0, chunks = 0, all_numbers, all_chunks;
  for (uint k = 0; k < OWN; ++k) {
    counts[k] = first + k < p.buckets ? BufferU32(p.plan).v[STARTS + first + k] : 0u;
    several[first + k] = counts[k] > CHUNK ? 1u : 0u;
    numbers += counts[k];
    chunks += (counts[k] + CHUNK - 1) / CHUNK;
  }
  numbers = sum_before(numbers, all_numbers);
  chunks = sum_before(chunks, all_chunks);
  for (uint k = 0; k < OWN; ++k) {
    BufferU32(p.plan).v[STARTS + first + k] = numbers;
    BufferU32(p.plan).v[CHUNKS + first + k] = chunks;
    numbers += counts[k];
    chunks += (counts[k] + CHUNK - 1) / CHUNK;
  }
  if (t == THREADS - 1) {
    BufferU32(p.plan).v[STARTS + MOST_BUCKETS] = numbers;
    BufferU32(p.plan).v[CHUNKS + MOST_BUCKETS] = chunks;
  }
  uint any = 0, all_any;
  for (uint k = 0; k < OWN; ++k) any += several[first + k];
  sum_before(any, all_any);
  if (t == 0) BufferU32(p.plan).v[SEVERAL] = all_any;
  if (all_any == 0) return;
  for (uint b = 0; b < p.buckets; ++b) {
    if (several[b] == 0) continue;
    for (uint i = b * BINS + t; i < min((b + 1) * BINS, p.size); i += THREADS) {
      BufferU32(p.states).v[i] = 0;
      BufferWords(p.sums).v[i] = uvec2(0u);
    }
  }
}
#endif

#ifdef MOVE
#include "prefix.glsl"

layout(constant_id = 0) const uint DTYPE = 1;

layout(push_constant, scalar) uniform Push {
  uvec2 places, x, counts, plan, pairs;
  uint n, tiles, tiles_per_group, groups, buckets;
} p;

shared uint words[TILE];
shared uint counts[MOST_BUCKETS];  // counts of the tile; later the start of each bucket's run in the tile
shared uint to[MOST_BUCKETS];      // position for the bucket's next number
shared uint shift[MOST_BUCKETS];   // distance from a number's place in the tile to its place among the pairs

void main() {
  const uint OWN = MOST_BUCKETS / THREADS;
  uint t = thread_index(), group = group_index();
  if (group >= p.groups) return;
  for (uint b = t; b < p.buckets; b += THREADS) {
    to[b] = BufferU32(p.plan).v[STARTS + b] + BufferU32(p.counts).v[group * p.buckets + b];
  }
  uint end = min((group + 1) * p.tiles_per_group, p.tiles);
  for (uint tile = group * p.tiles_per_group; tile < end; ++tile) {
    uint start = tile * TILE, count = min(TILE, p.n - start), places[ELEMENTS], values[ELEMENTS], ranks[ELEMENTS], all;
    [[unroll]] for (uint k = 0; k < ELEMENTS; ++k) {
      places[k] = BufferU32(p.places).v[start + min(k * THREADS + t, count - 1)];
    }
    [[unroll]] for (uint k = 0; k < ELEMENTS; ++k) {
      values[k] = floatBitsToUint(load_value(p.x, start + min(k * THREADS + t, count - 1), DTYPE));
    }
    for (uint b = t; b < MOST_BUCKETS; b += THREADS) counts[b] = 0;
    barrier();
    // The order within a bucket is arbitrary.
    [[unroll]] for (uint k = 0; k < ELEMENTS; ++k) {
      if (k * THREADS + t < count) ranks[k] = atomicAdd(counts[places[k] >> BIN_BITS], 1u);
    }
    barrier();
    uint own[OWN], sum = 0;
    [[unroll]] for (uint k = 0; k < OWN; ++k) {
      own[k] = counts[t * OWN + k];
      sum += own[k];
    }
    uint before = sum_before(sum, all);
    [[unroll]] for (uint k = 0; k < OWN; ++k) {
      uint b = t * OWN + k;
      counts[b] = before;
      shift[b] = to[b] - before;
      to[b] += own[k];
      before += own[k];
    }
    barrier();
    [[unroll]] for (uint k = 0; k < ELEMENTS; ++k) {
      if (k * THREADS + t >= count) continue;
      ranks[k] += counts[places[k] >> BIN_BITS];
      words[ranks[k]] = places[k];
    }
    barrier();
    [[unroll]] for (uint k = 0; k < ELEMENTS; ++k) places[k] = words[k * THREADS + t];
    barrier();
    [[unroll]] for (uint k = 0; k < ELEMENTS; ++k) {
      if (k * THREADS + t < count) words[ranks[k]] = values[k];
    }
    barrier();
    [[unroll]] for (uint k = 0; k < ELEMENTS; ++k) {
      uint i = k * THREADS + t;
      if (i < count) {
        BufferWords(p.pairs).v[shift[places[k] >> BIN_BITS] + i] = uvec2(places[k] & (BINS - 1), words[i]);
      }
    }
    barrier();
  }
}
#endif

#if defined(SUMS) || defined(RESULTS)
// For each element of y: 0 without a number, or the largest exponent (biased, 0 to 254) plus one. A number that is not
// finite adds a flag, which no exponent reaches.
const uint PLUS_INFINITY = 256, MINUS_INFINITY = 512, NOT_A_NUMBER = 1024;

// The addend of y for a sum of multiples of 2^(exponent - 157), exponent at least 1.
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
  // 26 bits, of which the last is set if any bit after it is: a float conversion rounds them once.
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
  // Two factors, since a single one could be too small for a float.
  int exponent = max(int(state) - 1, 1) - 157 + shift, part = exponent / 2;
  float value = float(bits) * uintBitsToFloat(uint(part + 127) << 23) *
                uintBitsToFloat(uint(exponent - part + 127) << 23);
  return negative ? -value : value;
}
#endif

#ifdef SUMS
layout(constant_id = 0) const uint Y_DTYPE = 1;
layout(constant_id = 1) const uint X_DTYPE = 1;
layout(constant_id = 2) const uint DIRECT = 0;  // true: one bucket, whose numbers were not moved

layout(push_constant, scalar) uniform Push {
  uvec2 places, x;       // DIRECT
  uvec2 pairs, plan;     // otherwise
  uvec2 y, states, sums;  // states and sums: of buckets with several chunks
  uint n, size;          // numbers; elements of y
} p;

shared uint states[BINS];
#ifndef EXPONENTS
shared uint low[BINS], high[BINS];
#endif

const uint AT_ONCE = 8;
// Numbers first, first + THREADS ... and their places in the bucket. Those at or past `end` may be anything.
void load_pairs(uint first, uint end, out uvec2 pairs[AT_ONCE]) {
  [[unroll]] for (uint k = 0; k < AT_ONCE; ++k) {
    uint i = min(first + k * THREADS, end - 1);
    pairs[k] = DIRECT == 0 ? BufferWords(p.pairs).v[i]
                           : uvec2(BufferU32(p.places).v[i], floatBitsToUint(load_value(p.x, i, X_DTYPE)));
  }
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
  // The 24 bits of the mantissa, shifted to the position among 31 bits that the exponent gives, rounded to even.
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
  uvec2 pairs[AT_ONCE];
  if (DIRECT != 0) {
    start = group * CHUNK;
    end = min(start + CHUNK, p.n);
    chunks = (p.n + CHUNK - 1) / CHUNK;
    if (start >= p.n) return;
  } else {
#ifdef EXPONENTS
    if (ETNA_UNIFORM(BufferU32(p.plan).v[SEVERAL] == 0)) return;
#endif
    if (ETNA_UNIFORM(group >= BufferU32(p.plan).v[CHUNKS + MOST_BUCKETS])) return;
    // The last bucket with no more chunks before it than this one.
    for (uint step = MOST_BUCKETS / 2; step > 0; step /= 2) {
      if (BufferU32(p.plan).v[CHUNKS + bucket + step] <= group) bucket += step;
    }
    uint first = BufferU32(p.plan).v[CHUNKS + bucket];
    chunks = BufferU32(p.plan).v[CHUNKS + bucket + 1] - first;
    start = BufferU32(p.plan).v[STARTS + bucket] + (group - first) * CHUNK;
    end = min(start + CHUNK, BufferU32(p.plan).v[STARTS + bucket + 1]);
  }
  bool alone = ETNA_UNIFORM(chunks == 1);
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
    for (uint i = start + t; i < end; i += AT_ONCE * THREADS) {
      load_pairs(i, end, pairs);
      [[unroll]] for (uint k = 0; k < AT_ONCE; ++k) {
        if (i + k * THREADS < end) find_exponent(pairs[k]);
      }
    }
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
  // Backward, since what was read last may still be in a cache.
  for (uint round = (end - start + AT_ONCE * THREADS - 1) / (AT_ONCE * THREADS); round > 0; --round) {
    uint i = start + (round - 1) * AT_ONCE * THREADS + t;
    load_pairs(i, end, pairs);
    [[unroll]] for (uint k = 0; k < AT_ONCE; ++k) {
      if (i + k * THREADS < end) add(pairs[k]);
    }
  }
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
  uvec2 plan, y, states, sums;  // plan: null for a single bucket
  uint size;
} p;

void main() {
  uint bucket = group_index(), chunks = CHUNKS + bucket, end = min((bucket + 1) * BINS, p.size);
  if (bucket >= MOST_BUCKETS) return;
  if (p.plan != uvec2(0u) && BufferU32(p.plan).v[chunks + 1] - BufferU32(p.plan).v[chunks] < 2) return;
  for (uint i = bucket * BINS + gl_LocalInvocationID.x; i < end; i += THREADS) {
    uint state = BufferU32(p.states).v[i];
    if (state == 0) continue;
    float value = load_value(p.y, i, Y_DTYPE) + result_of(state, BufferWords(p.sums).v[i]);
    store_value(p.y, i, Y_DTYPE, value);
  }
}
#endif
