#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_ballot : require
#extension GL_EXT_control_flow_attributes : require
// Stable radix sort of long rows, by 8 bits at a time from the lowest (LSD): bytes-bound, 20 bytes per element and
// pass.
//
// radix_keys writes the elements' keys once, so that the passes are the same for all dtypes. A pass has three kernels.
// radix_count counts the digits of each tile of 4096 elements. radix_offsets replaces the counts of each digit by sums
// over the tiles before (one workgroup per row and digit). radix_scatter ranks the elements of a tile, orders them in
// shared memory and writes each digit's run to its position: a run of 16 elements on average, where unordered tiles
// would write single elements. The lanes of a subgroup that hold the same digit find each other by eight ballots (one
// per bit), so no atomic decides an order.
//
// Subgroups of fewer than 8 lanes use 128 threads per workgroup, so that there are never more than 32 subgroups.
//
// variant: radix_keys KEYS THREADS=256
// variant: radix_count COUNT THREADS=256
// variant: radix_offsets OFFSETS THREADS=256
// variant: radix_scatter SCATTER THREADS=256
// variant: radix_scatter_128 SCATTER THREADS=128

#include "sort_keys.glsl"

layout(local_size_x = THREADS) in;
const uint DIGITS = 256, TILE = 4096, ELEMENTS = TILE / THREADS;

ETNA_BUFFER(BufferU32, uint);
uint group_index() { return gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x; }

#if defined(OFFSETS) || defined(SCATTER)
#include "prefix.glsl"
#endif

#ifdef KEYS
layout(constant_id = 0) const uint DTYPE = 1;
layout(constant_id = 1) const uint DESCENDING = 0;
layout(constant_id = 2) const uint WORD = 0;

layout(push_constant, scalar) uniform Push {
  uvec2 x, order;  // order: null, or the position in its row of each element
  uvec2 keys;
  uint count, n;
} p;

void main() {
  uint base = group_index() * 1024 + gl_LocalInvocationID.x;
  for (uint k = 0; k < 4; ++k) {
    uint i = base + k * THREADS;
    if (i >= p.count) return;
    uint from = p.order == uvec2(0u) ? i : i / p.n * p.n + uint(BufferI32(p.order).v[i]);
    BufferU32(p.keys).v[i] = key_in_order(p.x, from, DTYPE, WORD, DESCENDING != 0);
  }
}
#endif

#ifdef COUNT
layout(push_constant, scalar) uniform Push {
  uvec2 keys, counts;  // counts: [rows, DIGITS, tiles]
  uint rows, n, tiles, shift;
} p;

shared uint bins[DIGITS];

void main() {
  uint t = gl_LocalInvocationID.x, row = group_index() / p.tiles, tile = group_index() % p.tiles;
  if (row >= p.rows) return;
  bins[t] = 0;
  barrier();
  // All loads before the first use, so that they overlap.
  uint first = tile * TILE + t, keys[ELEMENTS];
  [[unroll]] for (uint k = 0; k < ELEMENTS; ++k) {
    keys[k] = BufferU32(p.keys).v[row * p.n + min(first + k * THREADS, p.n - 1)];
  }
  [[unroll]] for (uint k = 0; k < ELEMENTS; ++k) {
    if (first + k * THREADS < p.n) atomicAdd(bins[(keys[k] >> p.shift) & 255u], 1u);
  }
  barrier();
  BufferU32(p.counts).v[(row * DIGITS + t) * p.tiles + tile] = bins[t];
}
#endif

#ifdef OFFSETS
layout(push_constant, scalar) uniform Push {
  uvec2 counts, totals;  // totals: [lines]
  uint lines, tiles;
} p;

shared uint exchanged[TILE];
// Threads read 16 neighbours; without a swizzle they would conflict in two banks.
uint slot_of(uint i) { return i ^ ((i >> 5) & 31u); }

void main() {
  uint line = group_index(), t = thread_index(), sum = 0;
  if (line >= p.lines) return;
  for (uint first = 0; first < p.tiles; first += TILE) {
    uint start = line * p.tiles + first, count = min(TILE, p.tiles - first), own = 0, all;
    for (uint i = t; i < TILE; i += THREADS) exchanged[slot_of(i)] = i < count ? BufferU32(p.counts).v[start + i] : 0u;
    barrier();
    for (uint k = 0; k < ELEMENTS; ++k) own += exchanged[slot_of(t * ELEMENTS + k)];
    uint before = sum + sum_before(own, all);
    for (uint k = 0; k < ELEMENTS; ++k) {
      uint slot = slot_of(t * ELEMENTS + k), value = exchanged[slot];
      exchanged[slot] = before;
      before += value;
    }
    barrier();
    for (uint i = t; i < count; i += THREADS) BufferU32(p.counts).v[start + i] = exchanged[slot_of(i)];
    sum += all;
    barrier();
  }
  if (t == 0) BufferU32(p.totals).v[line] = sum;
}
#endif

#ifdef SCATTER
layout(constant_id = 0) const uint SUBGROUP = 32;

// The number of lanes in the subgroup with the same digit, and the number of these before this lane.
#ifdef ETNA_WEBGPU
shared uint digits_of[THREADS];

void find_peers(uint digit, out uint count, out uint before) {
  digits_of[gl_LocalInvocationID.x] = digit;
  barrier();
  count = before = 0;
  for (uint lane = 0; lane < 32; ++lane) {
    bool same = digits_of[SUBGROUP_INDEX * 32 + lane] == digit;
    count += same ? 1u : 0u;
    before += same && lane < SUBGROUP_LANE ? 1u : 0u;
  }
}
void wait_for_subgroup() { barrier(); }
#else
#define wait_for_subgroup() subgroupMemoryBarrierShared(); subgroupBarrier()
void find_peers(uint digit, out uint count, out uint before) {
  if (SUBGROUP <= 32) {
    uint same = subgroupBallot(true).x;
    [[unroll]] for (uint bit = 1; bit < DIGITS; bit *= 2) {
      uint set = subgroupBallot((digit & bit) != 0).x;
      same &= (digit & bit) != 0 ? set : ~set;
    }
    count = bitCount(same);
    before = bitCount(same & ((1u << gl_SubgroupInvocationID) - 1u));
  } else {
    uvec4 same = subgroupBallot(true);
    [[unroll]] for (uint bit = 1; bit < DIGITS; bit *= 2) {
      uvec4 set = subgroupBallot((digit & bit) != 0);
      same &= (digit & bit) != 0 ? set : ~set;
    }
    count = subgroupBallotBitCount(same);
    before = subgroupBallotExclusiveBitCount(same);
  }
}
#endif

layout(push_constant, scalar) uniform Push {
  uvec2 keys, order, sorted_keys, sorted_order;  // order: null in the first pass, which uses 0, 1, 2 ...
  uvec2 counts, totals;
  uint rows, n, tiles, shift;
} p;

// Counters of the subgroups, two digits per u32: d in the lower half, d + 128 in the upper half. Later keys, then
// order.
shared uint words[TILE];
shared uint starts[DIGITS];  // start of a digit's run in the tile; later the distance from there to its position in the
                             // row

void main() {
  uint t = thread_index(), row = group_index() / p.tiles, tile = group_index() % p.tiles;
  if (row >= p.rows) return;
  uint start = row * p.n + tile * TILE, count = min(TILE, p.n - tile * TILE);
  uint keys[ELEMENTS], order[ELEMENTS], ranks[ELEMENTS];

  // A subgroup takes neighbours: its element k of all lanes, then element k + 1. Padding sorts last.
  uint first = SUBGROUP_INDEX * SUBGROUP * ELEMENTS + SUBGROUP_LANE;
  [[unroll]] for (uint k = 0; k < ELEMENTS; ++k) {
    uint i = first + k * SUBGROUP;
    keys[k] = BufferU32(p.keys).v[start + min(i, count - 1)];
    if (i >= count) keys[k] = 0xffffffffu;
  }
  [[unroll]] for (uint k = 0; k < ELEMENTS; ++k) {
    uint i = first + k * SUBGROUP;
    order[k] = tile * TILE + i;
    if (p.order != uvec2(0u)) order[k] = BufferU32(p.order).v[start + min(i, count - 1)];
  }

  // Ranks among the elements of this subgroup that have the same digit.
  const uint PAIRS = DIGITS / 2, SUBGROUPS = THREADS / SUBGROUP;
  for (uint i = t; i < SUBGROUPS * PAIRS; i += THREADS) words[i] = 0;
  barrier();
  uint own = SUBGROUP_INDEX * PAIRS;
  [[unroll]] for (uint k = 0; k < ELEMENTS; ++k) {
    uint digit = (keys[k] >> p.shift) & 255u, at = own + (digit & 127u), half_shift = (digit >> 7) * 16, peers, before;
    find_peers(digit, peers, before);
    ranks[k] = ((words[at] >> half_shift) & 0xffffu) + before;
    wait_for_subgroup();
    if (before == 0) atomicAdd(words[at], peers << half_shift);
    wait_for_subgroup();
  }
  barrier();

  // Adds the counts of the subgroups before; then computes the start of each digit's run.
  uint pair = 0, all;
  if (t < PAIRS) {
    for (uint s = 0; s < SUBGROUPS; ++s) {
      uint of_subgroup = words[s * PAIRS + t];
      words[s * PAIRS + t] = pair;
      pair += of_subgroup;
    }
  }
  uint before = sum_before(pair, all);
  if (t < PAIRS) {
    starts[t] = before & 0xffffu;
    starts[t + PAIRS] = (before >> 16) + (all & 0xffffu);  // digits from 128 on come after all below
  }
  barrier();
  [[unroll]] for (uint k = 0; k < ELEMENTS; ++k) {
    uint digit = (keys[k] >> p.shift) & 255u;
    ranks[k] += ((words[own + (digit & 127u)] >> ((digit >> 7) * 16)) & 0xffffu) + starts[digit];
  }
  barrier();

  // Element k * THREADS + t of the ordered tile. Its position: the digits before, in all tiles; its digit in the tiles
  // before; its rank among the tile's elements with that digit.
  [[unroll]] for (uint k = 0; k < ELEMENTS; ++k) words[ranks[k]] = keys[k];
  uint digits_before = 0;
#ifdef ETNA_WEBGPU
  for (uint at = 0; at < DIGITS; at += THREADS) {  // a loop count that is the same for all threads
    uint d = at + t;
#else
  for (uint d = t; d < DIGITS; d += THREADS) {
#endif
    uint line = row * DIGITS + d;
    uint to = digits_before + sum_before(BufferU32(p.totals).v[line], all);
    to += BufferU32(p.counts).v[line * p.tiles + tile];
    digits_before += all;
    starts[d] = to - starts[d];
  }
  barrier();
  [[unroll]] for (uint k = 0; k < ELEMENTS; ++k) {
    uint i = k * THREADS + t;
    keys[k] = words[i];
  }
  barrier();
  [[unroll]] for (uint k = 0; k < ELEMENTS; ++k) words[ranks[k]] = order[k];
  barrier();
  [[unroll]] for (uint k = 0; k < ELEMENTS; ++k) {
    uint i = k * THREADS + t;
    if (i < count) {
      uint to = row * p.n + starts[(keys[k] >> p.shift) & 255u] + i;
      BufferU32(p.sorted_keys).v[to] = keys[k];
      BufferU32(p.sorted_order).v[to] = words[i];
    }
  }
}
#endif
