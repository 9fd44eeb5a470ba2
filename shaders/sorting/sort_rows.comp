#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
// Sorts rows of up to 4096 elements (2048 of i64) and writes values and indices, or keys and their order: the original
// position of each element of the sorted row. A workgroup sorts as many rows as fit into its tile, so that one pipeline
// serves all lengths. Bound by shared memory and comparisons; a radix sort of 4 bits at a time would move as many bytes
// through shared memory. See lib/bitonic.glsl. Values are computed from keys; only NaN and zeros, whose keys do not
// determine their bits, are read from x again.
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
#include "units.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint DTYPE = 1;
layout(constant_id = 1) const uint DESCENDING = 0;
layout(constant_id = 2) const uint UNIT = 4;    // bytes of an element
layout(constant_id = 3) const uint VALUES = 1;  // values and i64 indices are written, else keys and i32 positions

layout(push_constant, scalar) uniform Push {
  uvec2 x, sorted, places;
  uint rows, n;
  uint padded;  // n rounded up to a power of two, at least 8
  uint kept;    // number of elements of each sorted row to write
} p;

// Element `at` of a row; those after the row's end are the largest.
Pair pair_from(uint row, uint at) {
  uint i = row * p.n + min(at, p.n - 1);
  Pair pair;
  pair.place = at;
  pair.key = key_in_order(p.x, i, DTYPE, 0, DESCENDING != 0);
#ifdef WIDE_KEYS
  pair.high = key_in_order(p.x, i, I64, 1, DESCENDING != 0);
  if (at >= p.n) pair.high = 0xffffffffu;
#endif
  if (at >= p.n) pair.key = 0xffffffffu;
  return pair;
}

void store_value(uint to, Pair pair, uint row) {
#ifndef WIDE_KEYS
  if (store_value_of_key(p.sorted, to, pair.key, DTYPE, DESCENDING != 0)) return;
#endif
  copy_unit(p.sorted, to, p.x, row * p.n + pair.place, UNIT);
}

void main() {
  uint group = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x, bits = findLSB(p.padded);
  uint per_tile = PAIRS >> bits, first = group * per_tile;
  if (first >= p.rows) return;
  uint rows = min(per_tile, p.rows - first), count = rows << bits;
  const uint AT_ONCE = 8;  // loads before the first is used
  for (uint begin = gl_LocalInvocationID.x; begin < count; begin += AT_ONCE * THREADS) {
    Pair pairs[AT_ONCE];
    [[unroll]] for (uint k = 0; k < AT_ONCE; ++k) {
      uint i = min(begin + k * THREADS, count - 1);
      pairs[k] = pair_from(first + (i >> bits), i & p.padded - 1);
    }
    [[unroll]] for (uint k = 0; k < AT_ONCE; ++k) {
      if (begin + k * THREADS < count) put_pair(begin + k * THREADS, pairs[k]);
    }
  }
  barrier();
  sort_pairs(p.padded, count);
  for (uint i = gl_LocalInvocationID.x; i < rows * p.kept; i += THREADS) {
    uint row = rows == 1 ? 0u : i / p.kept, to = first * p.kept + i;
    Pair pair = pair_at((row << bits) + i - row * p.kept);
    if (VALUES != 0) {
      store_value(to, pair, first + row);
      BufferWords(p.places).v[to] = uvec2(pair.place, 0u);
    } else {
      BufferI32(p.sorted).v[to] = int(pair.key);
      BufferI32(p.places).v[to] = int(pair.place);
    }
  }
}
