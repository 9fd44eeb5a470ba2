#version 460
#extension GL_GOOGLE_include_directive : require
// Adds many numbers to a list: y[place[i]] += x[i], with the same bits in every run although threads add in any order.
// The order cannot matter, because the sums are of integers: bin_exponents finds the largest exponent among the numbers
// for each element of y, and bin_sums adds the numbers in 64 bits, as multiples of the last of 31 bits below that
// exponent. That keeps 7 bits more of each number than a float has; the sum is rounded once.
//
// Numbers are first sorted into buckets of 2048 or 4096 elements of y, so that a workgroup adds in shared memory.
// bin_sort sorts each tile of 4096 numbers by bucket and leaves it where it was, with places in the bucket; it notes
// where each bucket's run begins in the tile. bin_plan counts chunks: a bucket has one, or where it has many numbers
// several, each of every third, fifth ... tile. bin_sums gathers a chunk's runs. Chunks of one bucket share exponents
// and sums in global memory, and bin_results finishes them.
// bin_sort is bytes-bound. bin_sums is bound by shared memory's atomics and by short runs: 4096 elements a bucket make
// runs twice as long as 2048, and need 45 KiB. Lost: numbers moved to a place of their bucket, which takes counts of
// all tiles first; runs found by positions in a batch of them, with four barriers each.
//
// variant: bin_sort SORT T=float T_FLOAT
// variant: bin_sort_index SORT INDEX T=float T_FLOAT
// variant: bin_plan PLAN
// variant: bin_exponents SUMS EXPONENTS T=float T_FLOAT
// variant: bin_sums SUMS T=float T_FLOAT
// variant: bin_results RESULTS T=float T_FLOAT

#extension GL_EXT_control_flow_attributes : require

layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint THREADS = 256;
layout(constant_id = 1) const uint BIN_BITS = 11;

#include "dtype.glsl"
#if defined(SORT) || defined(PLAN)
#include "prefix.glsl"
#endif

const uint TILE = 4096;
const uint BINS = 1u << BIN_BITS, MOST_BUCKETS = 0x200000u >> BIN_BITS, CHUNK = 32u << BIN_BITS;

ETNA_BUFFER(BufferU32, uint);
uint group_index() { return gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x; }

// The plan: the numbers of each bucket; the number of chunks before it; how many buckets have several.
const uint COUNTS = 0, CHUNKS = MOST_BUCKETS, SEVERAL = 2 * MOST_BUCKETS + 1;

#ifdef SORT
layout(constant_id = 2) const uint DTYPE = 1;
#ifdef INDEX
#include "index.glsl"

layout(constant_id = 3) const uint INDEX_DTYPE = 4;
#endif

layout(push_constant, scalar) uniform Push {
#ifdef INDEX
  uvec2 index, index_errors;
#else
  uvec2 places;
#endif
  uvec2 x, pairs, runs, plan;  // runs: [tiles, buckets], where a run begins in its tile, and its length << 16
  uint n, tiles, buckets;
#ifdef INDEX
  uint limit;
#endif
} p;

#ifdef INDEX
#define GIVEN uvec2
GIVEN given_at(uint i) { return load_index_u32s(p.index, i, INDEX_DTYPE); }
uint place_of(GIVEN given, uint i) { return checked_index(given, i, p.limit, p.index_errors); }
#else
#define GIVEN uint
GIVEN given_at(uint i) { return BufferU32(p.places).v[i]; }
uint place_of(GIVEN given, uint i) { return given; }
#endif

const uint ELEMENTS = TILE / THREADS;
shared uint words[TILE];
shared uint counts[MOST_BUCKETS];  // later where each bucket's run begins in the tile

void main() {
  uint t = thread_index(), tile = group_index();
  if (tile >= p.tiles) return;
  uint start = tile * TILE, count = min(TILE, p.n - start), places[ELEMENTS], values[ELEMENTS], ranks[ELEMENTS], all;
  GIVEN given[ELEMENTS];
  // All loads before the first use, so that they overlap.
  [[unroll]] for (uint k = 0; k < ELEMENTS; ++k) given[k] = given_at(start + min(k * THREADS + t, count - 1));
  [[unroll]] for (uint k = 0; k < ELEMENTS; ++k) {
    values[k] = floatBitsToUint(load_value(p.x, start + min(k * THREADS + t, count - 1), DTYPE));
  }
  for (uint b = t; b < p.buckets; b += THREADS) counts[b] = 0;
  barrier();
  // The order within a bucket is arbitrary.
  [[unroll]] for (uint k = 0; k < ELEMENTS; ++k) {
    uint i = k * THREADS + t;
    places[k] = place_of(given[k], start + min(i, count - 1));
    if (i < count) ranks[k] = atomicAdd(counts[places[k] >> BIN_BITS], 1u);
  }
  barrier();
  uint own = (p.buckets + THREADS - 1) / THREADS, first = min(t * own, p.buckets), end = min(first + own, p.buckets);
  uint sum = 0;
  for (uint b = first; b < end; ++b) sum += counts[b];
  uint before = sum_before(sum, all);
  for (uint b = first; b < end; ++b) {
    uint length = counts[b];
    counts[b] = before;
    BufferU32(p.runs).v[tile * p.buckets + b] = before | length << 16;
    if (length != 0) atomicAdd(BufferU32(p.plan).v[COUNTS + b], length);
    before += length;
  }
  barrier();
  [[unroll]] for (uint k = 0; k < ELEMENTS; ++k) {
    if (k * THREADS + t >= count) continue;
    ranks[k] += counts[places[k] >> BIN_BITS];
    words[ranks[k]] = places[k] & (BINS - 1);
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
    if (i < count) BufferWords(p.pairs).v[start + i] = uvec2(places[k], words[i]);
  }
}
#endif

#ifdef PLAN
layout(push_constant, scalar) uniform Push {
  uvec2 plan, states, sums;  // states and sums are cleared for buckets with several chunks
  uint buckets, size;
} p;

shared uint chunks_of[MOST_BUCKETS];

void main() {
  uint own = MOST_BUCKETS / THREADS, t = thread_index(), first = t * own, sum = 0, several = 0, all;
  for (uint b = first; b < first + own; ++b) {
    uint count = b < p.buckets ? BufferU32(p.plan).v[COUNTS + b] : 0u;
    // An odd number, so that a pattern that repeats every 2, 4, 8 ... tiles gives all chunks numbers.
    uint chunks = count == 0 ? 0u : count / CHUNK | 1u;
    chunks_of[b] = chunks;
    sum += chunks;
    several += chunks > 1 ? 1u : 0u;
  }
  uint before = sum_before(sum, all);
  for (uint b = first; b < first + own; ++b) {
    BufferU32(p.plan).v[CHUNKS + b] = before;
    before += chunks_of[b];
  }
  if (t == THREADS - 1) BufferU32(p.plan).v[CHUNKS + MOST_BUCKETS] = before;
  sum_before(several, all);
  if (t == 0) BufferU32(p.plan).v[SEVERAL] = all;
  if (all == 0) return;
  for (uint b = 0; b < p.buckets; ++b) {
    if (chunks_of[b] < 2) continue;
    for (uint i = b * BINS + t; i < min((b + 1) * BINS, p.size); i += THREADS) {
      BufferU32(p.states).v[i] = 0;
      BufferWords(p.sums).v[i] = uvec2(0u);
    }
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
layout(constant_id = 2) const uint Y_DTYPE = 1;
layout(constant_id = 3) const uint X_DTYPE = 1;
layout(constant_id = 4) const uint DIRECT = 0;  // true: one bucket, whose numbers were not sorted

layout(push_constant, scalar) uniform Push {
  uvec2 places, x;          // DIRECT
  uvec2 pairs, runs, plan;  // otherwise
  uvec2 y, states, sums;    // states and sums: of buckets with several chunks
  uint n, size, tiles, buckets;
} p;

shared uint low[BINS];  // of the sums; before that, the states
#ifndef EXPONENTS
shared uint high[BINS], states[BINS / 2];  // states: two in a u32
#endif

// Runs of a batch of tiles. A group of threads takes some of them at a time, one after the other without gaps, 64
// numbers where runs have 8 or 16. Long runs are for all threads: sorted places have no others.
const uint BATCH = 1024, GROUP = 8, RUNS = 0x4000u >> BIN_BITS, AT_ONCE = 5, LONG = 128, LONG_RUNS = 64;
shared uint runs[BATCH];
shared uvec2 long_runs[LONG_RUNS];  // the first pair, their count
shared uint long_counts[2];         // of even and of odd batches

// This and add() take numbers `first`, first + step ... before `end`. Accesses to shared memory overlap.
void find_exponents(uvec2 pairs[AT_ONCE], uint first, uint step, uint end) {
  uint known[AT_ONCE];
  [[unroll]] for (uint k = 0; k < AT_ONCE; ++k) known[k] = low[pairs[k].x];
  [[unroll]] for (uint k = 0; k < AT_ONCE; ++k) {
    uint bits = pairs[k].y, exponent = (bits >> 23) & 255u;
    if (first + k * step >= end) continue;
    if (exponent == 255) {
      bool nan = (bits & 0x7fffffu) != 0, negative = (bits & 0x80000000u) != 0;
      atomicOr(low[pairs[k].x], nan ? NOT_A_NUMBER : negative ? MINUS_INFINITY : PLUS_INFINITY);
    } else if (known[k] < exponent + 1) {
      atomicMax(low[pairs[k].x], exponent + 1);
    }
  }
}

#ifndef EXPONENTS
uint state_at(uint i) { return (states[i / 2] >> (16 * (i & 1u))) & 0xffffu; }

// The 24 bits of the mantissa, shifted to the position among 31 bits that the exponent gives, rounded to even.
uint addend_of(uint state, uint bits) {
  uint exponent = (bits >> 23) & 255u, down = max(state, 2u) - 1 - max(exponent, 1u);
  uint mantissa = ((bits & 0x7fffffu) | (exponent != 0 ? 0x800000u : 0u)) << 7;
  if (state >= 256 || down > 31) return 0;
  return (mantissa + max((1u << down) >> 1, 1u) - 1 + ((mantissa >> down) & 1u)) >> down;
}

void add(uvec2 pairs[AT_ONCE], uint first, uint step, uint end) {
  uint addends[AT_ONCE], before[AT_ONCE];
  [[unroll]] for (uint k = 0; k < AT_ONCE; ++k) addends[k] = state_at(pairs[k].x);
  [[unroll]] for (uint k = 0; k < AT_ONCE; ++k) {
    addends[k] = first + k * step < end ? addend_of(addends[k], pairs[k].y) : 0u;
    if ((pairs[k].y & 0x80000000u) != 0) addends[k] = ~addends[k] + 1;
  }
  [[unroll]] for (uint k = 0; k < AT_ONCE; ++k) {
    if (addends[k] != 0) before[k] = atomicAdd(low[pairs[k].x], addends[k]);
  }
  [[unroll]] for (uint k = 0; k < AT_ONCE; ++k) {
    uint upper = ((pairs[k].y & 0x80000000u) != 0 ? 0xffffffffu : 0u) + (before[k] > ~addends[k] ? 1u : 0u);
    if (addends[k] != 0 && upper != 0) atomicAdd(high[pairs[k].x], upper);
  }
}
#endif

void take(bool adds, uvec2 pairs[AT_ONCE], uint first, uint step, uint end) {
#ifndef EXPONENTS
  if (adds) {
    add(pairs, first, step, end);
    return;
  }
#endif
  find_exponents(pairs, first, step, end);
}

// Of `count` numbers from `first` on, the one at `i` and every THREADS-th after it.
void load_pairs(uint first, uint i, uint count, out uvec2 pairs[AT_ONCE]) {
  [[unroll]] for (uint k = 0; k < AT_ONCE; ++k) {
    uint at = first + min(i + k * THREADS, count - 1);
    pairs[k] = DIRECT == 0 ? BufferWords(p.pairs).v[at]
                           : uvec2(BufferU32(p.places).v[at], floatBitsToUint(load_value(p.x, at, X_DTYPE)));
  }
}
// These numbers, by all threads.
void take_run(bool adds, uint first, uint count) {
  const uint STEP = AT_ONCE * THREADS;
  uvec2 pairs[AT_ONCE], next[AT_ONCE];
  for (uint i = gl_LocalInvocationID.x; i < count; i += 2 * STEP) {
    load_pairs(first, i, count, pairs);
    load_pairs(first, i + STEP, count, next);
    take(adds, pairs, i, THREADS, count);
    take(adds, next, i + STEP, THREADS, count);
  }
}

// Every `chunks`th tile from `chunk` on.
struct Chunk {
  uint bucket, chunk, chunks, tiles;
};
// Exponents from the last tile on, sums from the first on: what was written or read last may still be in a cache.
uint tile_of(Chunk c, bool adds, uint i) { return c.chunk + (adds ? i : c.tiles - 1 - i) * c.chunks; }

// The runs of a batch that starts at the chunk's tile `start`, and empty ones up to a multiple of RUNS.
void load_runs(bool adds, Chunk c, uint start, uint parity) {
  for (uint i = gl_LocalInvocationID.x; i < min(BATCH, c.tiles - start + RUNS); i += THREADS) {
    uint run = 0, tile = tile_of(c, adds, start + i);
    if (start + i < c.tiles) run = BufferU32(p.runs).v[tile * p.buckets + c.bucket];
    if (run >= LONG << 16) {
      uint slot = atomicAdd(long_counts[parity], 1u);
      if (slot < LONG_RUNS) {
        long_runs[slot] = uvec2(tile * TILE + (run & 0xffffu), run >> 16);
        run = 0;
      }
    }
    runs[i] = run;
  }
}

void take_short_runs(bool adds, Chunk c, uint start) {
  uint lane = gl_LocalInvocationID.x % GROUP, group = gl_LocalInvocationID.x / GROUP;
  for (uint r = group * RUNS; r < min(BATCH, c.tiles - start); r += THREADS / GROUP * RUNS) {
    uint shifts[RUNS], ends[RUNS], total = 0;
    [[unroll]] for (uint k = 0; k < RUNS; ++k) {
      shifts[k] = tile_of(c, adds, start + r + k) * TILE + (runs[r + k] & 0xffffu) - total;
      total += runs[r + k] >> 16;
      ends[k] = total;
    }
    uvec2 pairs[AT_ONCE];
    for (uint i = lane; i < total; i += AT_ONCE * GROUP) {
      [[unroll]] for (uint k = 0; k < AT_ONCE; ++k) {
        uint at = min(i + k * GROUP, total - 1), shift = shifts[RUNS - 1];
        [[unroll]] for (uint b = RUNS - 1; b > 0; --b) shift = at < ends[b - 1] ? shifts[b - 1] : shift;
        pairs[k] = BufferWords(p.pairs).v[shift + at];
      }
      take(adds, pairs, i, GROUP, total);
    }
  }
}

// All numbers of a chunk of `batches` batches. Begins and ends with a barrier.
void take_chunk(bool adds, Chunk c, uint batches) {
  uint t = gl_LocalInvocationID.x;
  if (t < 2) long_counts[t] = 0;
  barrier();
  for (uint batch = 0; batch < batches; ++batch) {
    load_runs(adds, c, batch * BATCH, batch & 1u);
    barrier();
    if (t == 0) long_counts[(batch + 1) & 1u] = 0;
    take_short_runs(adds, c, batch * BATCH);
    uint count = min(long_counts[batch & 1u], LONG_RUNS);
    for (uint l = 0; l < count; ++l) take_run(adds, long_runs[l].x, long_runs[l].y);
    barrier();
  }
}

void main() {
  uint t = gl_LocalInvocationID.x, group = group_index(), bucket = 0, chunk = group, tiles = 0;
  uint chunks = (p.n + CHUNK - 1) / CHUNK, batches = 0;
  if (DIRECT != 0) {
    if (group >= chunks) return;
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
    chunk = group - first;
    chunks = ETNA_UNIFORM(BufferU32(p.plan).v[CHUNKS + bucket + 1] - first);
    tiles = (p.tiles - chunk + chunks - 1) / chunks;
    batches = ETNA_UNIFORM((tiles + BATCH - 1) / BATCH);
  }
  Chunk c = Chunk(bucket, chunk, chunks, tiles);
  bool alone = chunks == 1;
  uint base = bucket * BINS, start = chunk * CHUNK, count = min(CHUNK, p.n - start);
#ifdef EXPONENTS
  if (alone) return;
#else
  if (alone)
#endif
  {
    for (uint b = t; b < BINS; b += THREADS) low[b] = 0;
    barrier();
    if (DIRECT != 0) {
      take_run(false, start, count);
      barrier();
    } else {
      take_chunk(false, c, batches);
    }
  }
#ifdef EXPONENTS
  for (uint b = t; b < BINS; b += THREADS) {
    if (low[b] >= 256) {
      atomicOr(BufferU32(p.states).v[base + b], low[b] & ~255u);
    } else if (low[b] != 0) {
      atomicMax(BufferU32(p.states).v[base + b], low[b]);
    }
  }
#else
  for (uint b = t; b < BINS / 2; b += THREADS) {
    uint pair = 0;
    [[unroll]] for (uint k = 0; k < 2; ++k) {
      uint i = 2 * b + k, state = low[i];
      if (!alone) state = base + i < p.size ? BufferU32(p.states).v[base + i] : 0u;
      pair |= state << (16 * k);
      low[i] = high[i] = 0;
    }
    states[b] = pair;
  }
  barrier();
  if (DIRECT != 0) {
    take_run(true, start, count);
    barrier();
  } else {
    take_chunk(true, c, batches);
  }
  for (uint b = t; b < BINS; b += THREADS) {
    uint i = base + b, state = state_at(b);
    if (state == 0 || i >= p.size) continue;
    if (alone) {
      store_value(p.y, i, Y_DTYPE, load_value(p.y, i, Y_DTYPE) + result_of(state, uvec2(low[b], high[b])));
    } else {
      uint before = atomicAdd(BufferU32(p.sums).v[2 * i], low[b]), upper = high[b] + (before > ~low[b] ? 1u : 0u);
      if (upper != 0) atomicAdd(BufferU32(p.sums).v[2 * i + 1], upper);
    }
  }
#endif
}
#endif

#ifdef RESULTS
layout(constant_id = 2) const uint Y_DTYPE = 1;

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
