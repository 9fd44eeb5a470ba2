#version 460
#extension GL_GOOGLE_include_directive : require
// Stable radix sort of long rows, by 8 bits at a time from the lowest (LSD): bytes-bound, 20 bytes an element and pass.
//
// radix_keys writes the elements' keys once, so that the passes are the same for all dtypes. A pass has three kernels.
// radix_count counts the digits of each tile of 4096 elements. radix_offsets turns the counts of one digit into sums
// over the tiles before (one workgroup a row and digit). radix_scatter sorts each tile by the digit, in shared memory
// by 4 bits at a time (Satish, Harris & Garland 2009), and writes each digit's run to its place: a run of 16 elements
// on average, where unsorted tiles would write single elements. Nothing depends on the size of a subgroup, and no
// atomic decides an order.
//
// variant: radix_keys KEYS
// variant: radix_count COUNT
// variant: radix_offsets OFFSETS
// variant: radix_scatter SCATTER

#include "sort_keys.glsl"

layout(local_size_x = 256) in;
const uint THREADS = 256, DIGITS = 256, TILE = 4096, ELEMENTS = TILE / THREADS;

ETNA_BUFFER(BufferU32, uint);
uint group_index() { return gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x; }

#if defined(OFFSETS) || defined(SCATTER)
shared uint sums[2 * THREADS];

// The sum of the values of the threads before this one; `all` becomes the sum of all.
uint sum_before(uint value, out uint all) {
  uint t = gl_LocalInvocationID.x, from = 0;
  sums[t] = value;
  barrier();
  uint sum = value;
  for (uint apart = 1; apart < THREADS; apart *= 2) {
    if (t >= apart) sum += sums[from + t - apart];
    from = THREADS - from;
    sums[from + t] = sum;
    barrier();
  }
  all = sums[from + THREADS - 1];
  barrier();
  return sum - value;
}
#endif

#ifdef KEYS
layout(constant_id = 0) const uint DTYPE = 1;
layout(constant_id = 1) const uint DESCENDING = 0;
layout(constant_id = 2) const uint WORD = 0;

layout(push_constant, scalar) uniform Push {
  uvec2 x, order;  // order: null, or where the element of each place lies in its row
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
  for (uint k = 0; k < ELEMENTS; ++k) {
    uint i = tile * TILE + k * THREADS + t;
    if (i < p.n) atomicAdd(bins[(BufferU32(p.keys).v[row * p.n + i] >> p.shift) & 255u], 1u);
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

void main() {
  uint line = group_index(), sum = 0;
  if (line >= p.lines) return;
  for (uint first = 0; first < p.tiles; first += THREADS) {
    uint tile = first + gl_LocalInvocationID.x, at = line * p.tiles + tile, all;
    uint before = sum_before(tile < p.tiles ? BufferU32(p.counts).v[at] : 0u, all);
    if (tile < p.tiles) BufferU32(p.counts).v[at] = sum + before;
    sum += all;
  }
  if (gl_LocalInvocationID.x == 0) BufferU32(p.totals).v[line] = sum;
}
#endif

#ifdef SCATTER
layout(push_constant, scalar) uniform Push {
  uvec2 keys, order, sorted_keys, sorted_order;  // order: null in the first pass, where it is 0, 1, 2 ...
  uvec2 counts, totals;
  uint rows, n, tiles, shift;
} p;

shared uint exchanged[TILE];
shared uint counters[8 * THREADS];  // two digits of 4 bits a word: d in the lower half, d + 8 in the upper one
shared uint offsets[DIGITS];

// Threads read 16 neighbours; without a swizzle they would meet in two banks.
uint slot_of(uint i) { return i ^ ((i >> 5) & 31u); }

void main() {
  uint t = gl_LocalInvocationID.x, row = group_index() / p.tiles, tile = group_index() % p.tiles;
  if (row >= p.rows) return;
  uint start = row * p.n + tile * TILE, count = min(TILE, p.n - tile * TILE), all;
  uint keys[ELEMENTS], order[ELEMENTS], ranks[ELEMENTS];

  // A thread takes 16 neighbours, so that counting keeps their order. Padding sorts behind everything.
  for (uint k = 0; k < ELEMENTS; ++k) {
    uint i = k * THREADS + t;
    exchanged[slot_of(i)] = i < count ? BufferU32(p.keys).v[start + i] : 0xffffffffu;
  }
  barrier();
  for (uint k = 0; k < ELEMENTS; ++k) keys[k] = exchanged[slot_of(t * ELEMENTS + k)];
  barrier();
  if (p.order == uvec2(0u)) {
    for (uint k = 0; k < ELEMENTS; ++k) order[k] = tile * TILE + t * ELEMENTS + k;
  } else {
    for (uint k = 0; k < ELEMENTS; ++k) {
      uint i = k * THREADS + t;
      exchanged[slot_of(i)] = i < count ? BufferU32(p.order).v[start + i] : 0u;
    }
    barrier();
    for (uint k = 0; k < ELEMENTS; ++k) order[k] = exchanged[slot_of(t * ELEMENTS + k)];
    barrier();
  }

  for (uint part = 0; part < 2; ++part) {
    uint shift = p.shift + 4 * part;
    for (uint d = 0; d < 8; ++d) counters[d * THREADS + t] = 0;
    for (uint k = 0; k < ELEMENTS; ++k) {
      uint digit = (keys[k] >> shift) & 15u, at = (digit & 7u) * THREADS + t, half_shift = (digit >> 3) * 16;
      uint word = counters[at];
      ranks[k] = (word >> half_shift) & 0xffffu;
      counters[at] = word + (1u << half_shift);
    }
    barrier();
    uint words[8], sum = 0;
    for (uint d = 0; d < 8; ++d) {
      words[d] = counters[8 * t + d];
      sum += words[d];
    }
    uint before = sum_before(sum, all);
    before += all << 16;  // digits 8 to 15 come after all of 0 to 7
    for (uint d = 0; d < 8; ++d) {
      counters[8 * t + d] = before;
      before += words[d];
    }
    barrier();
    for (uint k = 0; k < ELEMENTS; ++k) {
      uint digit = (keys[k] >> shift) & 15u;
      ranks[k] += (counters[(digit & 7u) * THREADS + t] >> ((digit >> 3) * 16)) & 0xffffu;
    }
    for (uint k = 0; k < ELEMENTS; ++k) exchanged[slot_of(ranks[k])] = keys[k];
    barrier();
    for (uint k = 0; k < ELEMENTS; ++k) keys[k] = exchanged[slot_of(part == 0 ? t * ELEMENTS + k : k * THREADS + t)];
    barrier();
    for (uint k = 0; k < ELEMENTS; ++k) exchanged[slot_of(ranks[k])] = order[k];
    barrier();
    for (uint k = 0; k < ELEMENTS; ++k) order[k] = exchanged[slot_of(part == 0 ? t * ELEMENTS + k : k * THREADS + t)];
    barrier();
  }

  // Element k * THREADS + t of the sorted tile is in keys[k] now. Its place: the digits before, in all tiles; its
  // digit in the tiles before; its place among the tile's elements of that digit.
  uint own = sum_before(BufferU32(p.totals).v[row * DIGITS + t], all);
  own += BufferU32(p.counts).v[(row * DIGITS + t) * p.tiles + tile];
  for (uint k = 0; k < ELEMENTS; ++k) exchanged[k * THREADS + t] = (keys[k] >> p.shift) & 255u;
  offsets[t] = own;
  barrier();
  for (uint k = 0; k < ELEMENTS; ++k) {
    uint i = k * THREADS + t, digit = exchanged[i];
    if (i == 0 || exchanged[i - 1] != digit) offsets[digit] -= i;
  }
  barrier();
  for (uint k = 0; k < ELEMENTS; ++k) {
    uint i = k * THREADS + t;
    if (i < count) {
      uint to = row * p.n + offsets[exchanged[i]] + i;
      BufferU32(p.sorted_keys).v[to] = keys[k];
      BufferU32(p.sorted_order).v[to] = order[k];
    }
  }
}
#endif
