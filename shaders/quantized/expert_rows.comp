#version 460
#extension GL_GOOGLE_include_directive : require
// Rows in the order of the experts that they chose, so that those of an expert are the rows of one matrix: as many
// tiles of TILE rows as an expert needs, one expert after the other.
//
// expert_ranks: a workgroup for each expert counts its choices, and gives each its place among them. The order does not
// depend on which thread is first. expert_rows: a workgroup for each choice copies its row of x to its slot; the first
// one of a tile writes the tile's expert. expert_bounds: where the rows of each expert begin and end. expert_merge: a
// row's results, times their factors, added in order.
//
// ORDER is how the kernels for Hopper GPUs read k (shaders/sm90/skinny_formats.cuh: place_of() there): 0 is as it is.
//
// variant: expert_ranks RANKS THREADS=256
// variant: expert_rows ROWS THREADS=128
// variant: expert_bounds BOUNDS THREADS=64
// variant: expert_merge MERGE THREADS=128

#extension GL_EXT_control_flow_attributes : require
#include "index.glsl"
#include "vectors.glsl"

layout(local_size_x = THREADS) in;
uint group_index() { return gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x; }

#ifdef RANKS
layout(constant_id = 0) const uint INDEX_DTYPE = 4;

// tiles: of all experts, filled with -1; ranks: among an expert's choices
layout(push_constant, scalar) uniform Push {
  uvec2 expert, index_errors, counts, ranks, tiles;
  uint choices, experts, tile_count;
} p;

shared uint parts[THREADS];

// The experts of choices i ... i + 7; none behind the last.
void load_eight(uint i, uint end, uvec2 errors, out uint found[8]) {
  [[unroll]] for (uint u = 0; u < 8; ++u)
    found[u] = i + u < end ? load_index(p.expert, i + u, INDEX_DTYPE, p.experts, errors) : p.experts;
}

void main() {
  uint own = group_index(), thread = gl_LocalInvocationID.x;
  if (own >= p.experts) return;
  if (own == 0) {
    for (uint t = thread; t < p.tile_count; t += THREADS) BufferI32(p.tiles).v[t] = -1;
  }
  uvec2 errors = own == 0 ? p.index_errors : uvec2(0);
  // Neighbours of a thread, of which it loads eight before it looks at one.
  uint each = (p.choices + THREADS - 1) / THREADS, begin = min(p.choices, thread * each), count = 0;
  uint end = min(p.choices, begin + each), found[8];
  for (uint i = begin; i < end; i += 8) {
    load_eight(i, end, errors, found);
    [[unroll]] for (uint u = 0; u < 8; ++u) count += found[u] == own ? 1 : 0;
  }
  parts[thread] = count;
  barrier();
  // Sums over the threads before.
  for (uint apart = 1; apart < THREADS; apart *= 2) {
    uint before = thread >= apart ? parts[thread - apart] : 0;
    barrier();
    parts[thread] += before;
    barrier();
  }
  uint rank = parts[thread] - count;
  for (uint i = begin; i < end; i += 8) {
    load_eight(i, end, uvec2(0), found);
    [[unroll]] for (uint u = 0; u < 8; ++u)
      if (found[u] == own) BufferI32(p.ranks).v[i + u] = int(rank++);
  }
  if (thread == THREADS - 1) BufferI32(p.counts).v[own] = int(parts[thread]);
}
#endif

#ifdef ROWS
layout(constant_id = 0) const uint INDEX_DTYPE = 4;
layout(constant_id = 1) const uint X_DTYPE = 1;
layout(constant_id = 2) const uint Y_DTYPE = 1;
layout(constant_id = 3) const uint WIDTH = 1;
layout(constant_id = 4) const uint ORDER = 0;

layout(push_constant, scalar) uniform Push {
  uvec2 x, expert, counts, ranks, slots, tiles, y;
  uint choices, k, experts, shared_by, tile;
} p;

shared uint parts[THREADS];

// Where elements e ... e + 1 of a row lie, e even.
uint place_of(uint e) {
  if (ORDER == 1) {  // 64 at a time: eights j and t
    uint t = e >> 3 & 3, j = e >> 5 & 1;
    return (e & ~63u) | j << 5 | (e & 4) << 2 | (e & 2) << 2 | t << 1;
  }
  if (ORDER == 2) {  // 256 at a time
    uint t = e >> 6 & 3, j = e >> 3 & 7;
    return (e & ~255u) | j << 5 | (e & 4) << 2 | (e & 2) << 2 | t << 1;
  }
  if (ORDER == 3) {  // 256 at a time, as blocks of Q6_K are taken
    uint half_block = e >> 7 & 1, t = half_block << 1 | (e >> 4 & 1);
    uint j = (e >> 6 & 1) << 2 | (e >> 5 & 1) << 1 | ((e >> 3 & 1) ^ half_block);
    return (e & ~255u) | j << 5 | (e & 4) << 2 | (e & 2) << 2 | t << 1;
  }
  return e;
}

void main() {
  uint choice = group_index(), thread = gl_LocalInvocationID.x;
  if (choice >= p.choices) return;
  uint expert = load_index(p.expert, choice, INDEX_DTYPE, p.experts, uvec2(0)), before = 0;
  for (uint e = thread; e < expert; e += THREADS)
    before += (uint(BufferI32(p.counts).v[e]) + p.tile - 1) / p.tile;
  parts[thread] = before;
  barrier();
  for (uint apart = THREADS / 2; apart > 0; apart /= 2) {
    if (thread < apart) parts[thread] += parts[thread + apart];
    barrier();
  }
  uint rank = uint(BufferI32(p.ranks).v[choice]), slot = parts[0] * p.tile + rank;
  if (thread == 0) {
    BufferI32(p.slots).v[choice] = int(slot);
    if (rank % p.tile == 0) BufferI32(p.tiles).v[slot / p.tile] = int(expert);
  }
  uint from = choice / p.shared_by * p.k, to = slot * p.k;
  for (uint e = thread * 4; e < p.k; e += THREADS * 4) {
    uint count = min(4u, p.k - e);
    vec4 v = load_vector(p.x, from + e, count, X_DTYPE, WIDTH);
    if (ORDER == 0) {
      store_vector(p.y, to + e, count, Y_DTYPE, WIDTH, v);
    } else {
      store_vector(p.y, to + place_of(e), 2, Y_DTYPE, 2, v);
      store_vector(p.y, to + place_of(e + 2), 2, Y_DTYPE, 2, v.zwxy);
    }
  }
}
#endif

#ifdef BOUNDS
layout(push_constant, scalar) uniform Push {
  uvec2 counts, bounds;
  uint experts, tile;
} p;

void main() {
  uint own = group_index() * THREADS + gl_LocalInvocationID.x, first = 0;
  if (own >= p.experts) return;
  for (uint e = 0; e < own; ++e) first += (uint(BufferI32(p.counts).v[e]) + p.tile - 1) / p.tile * p.tile;
  BufferI32(p.bounds).v[2 * own] = int(first);
  BufferI32(p.bounds).v[2 * own + 1] = int(first) + BufferI32(p.counts).v[own];
}
#endif

#ifdef MERGE
layout(constant_id = 0) const uint X_DTYPE = 1;
layout(constant_id = 1) const uint Y_DTYPE = 1;
layout(constant_id = 2) const uint FACTOR_DTYPE = 1;
layout(constant_id = 3) const uint WIDTH = 1;

layout(push_constant, scalar) uniform Push {
  uvec2 x, slots, factor, y;
  uint rows, columns, chosen;
} p;

void main() {
  uint quads = (p.columns + 3) / 4, thread = group_index() * THREADS + gl_LocalInvocationID.x;
  uint row = thread / quads, column = thread % quads * 4, count = min(4u, p.columns - column);
  if (row >= p.rows) return;
  vec4 sum = vec4(0.0);
  for (uint c = 0; c < p.chosen; ++c) {
    uint choice = row * p.chosen + c, slot = uint(BufferI32(p.slots).v[choice]);
    sum += load_float(p.factor, choice, FACTOR_DTYPE) *
           load_vector(p.x, slot * p.columns + column, count, X_DTYPE, WIDTH);
  }
  store_vector(p.y, row * p.columns + column, count, Y_DTYPE, WIDTH, sum);
}
#endif
