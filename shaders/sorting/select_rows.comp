#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
// The k first elements of the sorted row, without sorting it. Bound by reading the row once. A workgroup takes 4096
// elements, finds the key of the k-th by counting 8 bits at a time in shared memory, and sorts only the k that it
// keeps. Among elements equal to the k-th, those at lower positions are kept; positions are two more digits. For longer
// rows it keeps the k first of each 4096, and the kernel runs again over those.
//
// variant: select_rows

#define PAIRS 1024
const uint THREADS = 256;

#include "bitonic.glsl"
#include "sort_keys.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint DTYPE = 1;
layout(constant_id = 1) const uint DESCENDING = 0;
const uint TILE = 4096;

layout(push_constant, scalar) uniform Push {
  uvec2 x;
  uvec2 candidates;  // null, or [rows, n]: the remaining positions in the rows of x
  uvec2 order;       // [rows, tiles * k], positions in the rows of x
  uint rows, row_length, n, tiles, k, padded_k;
} p;

shared uint keys[TILE];
shared uint bins[256];
shared uint chosen[2];  // digit; number of elements with that digit still to be found
shared uint taken;

void main() {
  uint t = gl_LocalInvocationID.x, group = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
  uint row = group / p.tiles, tile = group % p.tiles;
  if (row >= p.rows) return;
  // Tiles as equal as possible: none has fewer elements than k.
  uint size = p.n / p.tiles, larger = p.n % p.tiles, first = tile * size + min(tile, larger);
  uint count = size + (tile < larger ? 1u : 0u), from = row * p.n + first;
  for (uint i = t; i < count; i += THREADS) {
    uint at = p.candidates == uvec2(0u) ? first + i : uint(BufferI32(p.candidates).v[from + i]);
    keys[i] = key_in_order(p.x, row * p.row_length + at, DTYPE, 0, DESCENDING != 0);
  }
  if (t == 0) taken = 0;

  uint prefix = 0, mask = 0, place_prefix = 0, place_mask = 0, missing = p.k;
  uint top = DTYPE == F16 || DTYPE == BF16 ? 8u : DTYPE >= I8 && DTYPE <= BOOL ? 0u : 24u;
  for (uint round = 0; round < top / 8 + 3; ++round) {
    bool by_place = round > top / 8;
    uint shift = by_place ? (round == top / 8 + 1 ? 8u : 0u) : top - 8 * round;
    bins[t] = 0;
    barrier();
    for (uint i = t; i < count; i += THREADS) {
      uint key = keys[i];
      if ((key & mask) == prefix && (i & place_mask) == place_prefix) {
        atomicAdd(bins[((by_place ? i : key) >> shift) & 255u], 1u);
      }
    }
    barrier();
    // 16 threads sum 16 bins each; one then finds the digit.
    if (t < 16) {
      uint sum = 0;
      for (uint d = 0; d < 16; ++d) sum += bins[16 * t + d];
      sorted_keys[t] = sum;
    }
    barrier();
    if (t == 0) {
      uint before = 0, part = 0;
      while (part < 15 && before + sorted_keys[part] < missing) before += sorted_keys[part++];
      uint digit = 16 * part;
      while (digit < 16 * part + 15 && before + bins[digit] < missing) before += bins[digit++];
      chosen[0] = digit;
      chosen[1] = missing - before;
    }
    barrier();
    missing = chosen[1];
    if (by_place) {
      place_prefix |= chosen[0] << shift;
      place_mask |= 255u << shift;
    } else {
      prefix |= chosen[0] << shift;
      mask |= 255u << shift;
    }
    barrier();
  }

  for (uint i = t; i < p.padded_k; i += THREADS) put_pair(i, Pair(0xffffffffu, 0xffffffffu));
  barrier();
  for (uint i = t; i < count; i += THREADS) {
    uint key = keys[i];
    if (key < prefix || (key == prefix && i <= place_prefix)) put_pair(atomicAdd(taken, 1u), Pair(key, i));
  }
  barrier();
  sort_pairs(p.padded_k, p.padded_k);
  for (uint i = t; i < p.k; i += THREADS) {
    uint place = pair_at(i).place;
    uint at = p.candidates == uvec2(0u) ? first + place : uint(BufferI32(p.candidates).v[from + place]);
    BufferI32(p.order).v[(row * p.tiles + tile) * p.k + i] = int(at);
  }
}
