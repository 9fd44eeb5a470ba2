#version 460
#extension GL_GOOGLE_include_directive : require
// Sorts rows of up to 4096 elements (2048 of i64) and writes their order: the original position of each element of the
// sorted row. A workgroup sorts as many rows as fit into its tile, so that one pipeline serves all lengths. Bound by
// shared memory. The tile takes all 32 KiB of it: a radix sort of such a row would also need memory for counters. See
// lib/bitonic.glsl.
//
// variant: sort_rows
// variant: sort_rows_i64 WIDE_KEYS

#ifdef WIDE_KEYS
#define PAIRS 2048
#else
#define PAIRS 4096
#endif
const uint THREADS = 256;

#include "bitonic.glsl"
#include "sort_keys.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint DTYPE = 1;
layout(constant_id = 1) const uint DESCENDING = 0;

layout(push_constant, scalar) uniform Push {
  uvec2 x, order;
  uvec2 keys;   // null, or receives the keys in order
  uint rows, n;
  uint padded;  // n rounded up to a power of two, at least 8
  uint kept;    // number of elements of each sorted row to write
} p;

void main() {
  uint group = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x, per_tile = PAIRS / p.padded;
  uint first = group * per_tile;
  if (first >= p.rows) return;
  uint rows = min(per_tile, p.rows - first), count = rows * p.padded;
  for (uint i = gl_LocalInvocationID.x; i < count; i += THREADS) {
    uint row = first + i / p.padded, at = i % p.padded;
    bool there = at < p.n;
    Pair pair;
    pair.place = at;
    pair.key = 0xffffffffu;
#ifdef WIDE_KEYS
    pair.high = 0xffffffffu;
    if (there) {
      pair.key = key_in_order(p.x, row * p.n + at, I64, 0, DESCENDING != 0);
      pair.high = key_in_order(p.x, row * p.n + at, I64, 1, DESCENDING != 0);
    }
#else
    if (there) pair.key = key_in_order(p.x, row * p.n + at, DTYPE, 0, DESCENDING != 0);
#endif
    put_pair(i, pair);
  }
  barrier();
  sort_pairs(p.padded, count);
  for (uint i = gl_LocalInvocationID.x; i < rows * p.kept; i += THREADS) {
    Pair pair = pair_at(i / p.kept * p.padded + i % p.kept);
    uint to = first * p.kept + i;
    BufferI32(p.order).v[to] = int(pair.place);
    if (p.keys != uvec2(0u)) BufferI32(p.keys).v[to] = int(pair.key);
  }
}
