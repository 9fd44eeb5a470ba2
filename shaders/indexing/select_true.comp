#version 460
#extension GL_GOOGLE_include_directive : require
// The true elements of a mask, in order: their positions (nonzero) or the elements of another tensor at these positions
// (masked_select). Bytes-bound. count_true counts each tile of 4096, radix_offsets (radix_sort.comp) adds up the tiles
// before, and select_true gathers a tile's positions in shared memory, so that neighbouring threads write neighbours.
// unravel converts positions to coordinates.
//
// variant: count_true COUNT
// variant: select_true SELECT
// variant: unravel UNRAVEL

#include "units.glsl"

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
#include "prefix.glsl"

layout(constant_id = 0) const uint VECTORS = 0;  // 1: the mask starts at a multiple of 16 bytes

layout(push_constant, scalar) uniform Push {
  uvec2 mask, before;
#ifdef SELECT
  uvec2 x, y;
#endif
  uint n, tiles;
} p;

// A bit for each of 16 elements from `first` on.
uint truth_of(uint first) {
  uint bits = 0;
  if (VECTORS != 0 && first + ELEMENTS <= p.n) {
    uvec4 quad = BufferQuads(p.mask).v[first / ELEMENTS];
    for (uint w = 0; w < 4; ++w) {
      for (uint b = 0; b < 4; ++b) bits |= ((quad[w] >> (8 * b)) & 255u) != 0 ? 1u << (4 * w + b) : 0u;
    }
    return bits;
  }
  for (uint k = 0; k < ELEMENTS; ++k) {
    if (first + k < p.n && BufferU8(p.mask).v[first + k] != uint8_t(0)) bits |= 1u << k;
  }
  return bits;
}

#ifdef SELECT
layout(constant_id = 1) const uint UNIT = 0;  // bytes per element of x; 0: writes positions

shared uint found[TILE];
#endif

void main() {
  uint tile = group_index(), t = thread_index();
  if (tile >= p.tiles) return;
  uint bits = truth_of(tile * TILE + t * ELEMENTS), count, at = sum_before(bitCount(bits), count);
#ifdef COUNT
  if (t == 0) BufferI32(p.before).v[tile] = int(count);
#else
  for (; bits != 0; bits &= bits - 1) found[at++] = tile * TILE + t * ELEMENTS + findLSB(bits);
  barrier();
  uint before = uint(BufferI32(p.before).v[tile]);
  for (uint i = t; i < count; i += THREADS) {
    if (UNIT == 0) {
      BufferI32(p.y).v[before + i] = int(found[i]);
    } else {
      copy_unit(p.y, before + i, p.x, found[i], UNIT);
    }
  }
#endif
}
#endif
