#version 460
#extension GL_GOOGLE_include_directive : require
// Positions of the true elements of a mask, in order, and behind them those of the others: nonzero and masked_select.
// Bytes-bound. partition_count counts each tile of 4096, radix_offsets (radix_sort.comp) adds up the tiles before, and
// partition_place writes. unravel turns positions into coordinates.
//
// variant: partition_count COUNT
// variant: partition_place PLACE
// variant: unravel UNRAVEL

#include "dtype.glsl"

layout(local_size_x = 256) in;
const uint THREADS = 256, ELEMENTS = 16, TILE = THREADS * ELEMENTS;

uint group_index() { return gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x; }

#ifdef UNRAVEL
layout(constant_id = 0) const uint RANK = 1;

layout(push_constant, scalar) uniform Push {
  uvec2 places, coordinates;
  uint n;
  uint sizes[8];
} p;

void main() {
  uint i = group_index() * 256 + gl_LocalInvocationID.x;
  if (i >= p.n) return;
  uint rest = uint(BufferI32(p.places).v[i]);
  for (int d = int(RANK) - 1; d >= 0; --d) {
    BufferWords(p.coordinates).v[i * RANK + d] = uvec2(rest % p.sizes[d], 0u);
    rest /= p.sizes[d];
  }
}
#else
layout(push_constant, scalar) uniform Push {
  uvec2 mask, counts;
  uvec2 order, total;  // COUNT: null
  uint n, tiles;
} p;

shared uint sums[2 * THREADS];

bool is_true(uint i) { return i < p.n && BufferU8(p.mask).v[i] != uint8_t(0); }

// The sum of the values of this thread and of those before it.
uint sum_through(uint value) {
  uint t = gl_LocalInvocationID.x, from = 0, sum = value;
  sums[t] = value;
  barrier();
  for (uint apart = 1; apart < THREADS; apart *= 2) {
    if (t >= apart) sum += sums[from + t - apart];
    from = THREADS - from;
    sums[from + t] = sum;
    barrier();
  }
  return sum;
}

void main() {
  uint tile = group_index(), t = gl_LocalInvocationID.x, first = tile * TILE + t * ELEMENTS, own = 0;
  if (tile >= p.tiles) return;
  for (uint k = 0; k < ELEMENTS; ++k) own += is_true(first + k) ? 1u : 0u;
  uint through = sum_through(own);
#ifdef COUNT
  if (t == THREADS - 1) BufferI32(p.counts).v[tile] = int(through);
#else
  uint before = uint(BufferI32(p.counts).v[tile]) + through - own, total = uint(BufferI32(p.total).v[0]);
  for (uint k = 0; k < ELEMENTS; ++k) {
    uint i = first + k;
    if (i >= p.n) return;
    if (is_true(i)) {
      BufferI32(p.order).v[before] = int(i);
      ++before;
    } else {
      BufferI32(p.order).v[total + i - before] = int(i);
    }
  }
#endif
}
#endif
