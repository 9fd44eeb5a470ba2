#version 460
#extension GL_GOOGLE_include_directive : require
// The largest keys of each row in order: a key's position is the number of keys before it, so each thread compares its
// key with all of the row, 256 at a time from shared memory. The work grows with the square of the row, so the host
// sends no row of more than 65536 keys.
//
// variant: largest_first

#include "dtype.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint DTYPE = 1;

layout(push_constant, scalar) uniform Push {
  uvec2 keys, y;
  uint rows, n, count;
} p;

shared uvec2 others[256];

// High and low u32 of a number in the order of the keys.
uvec2 ordered(uint at) {
  if (DTYPE == I64) {
    uvec2 words = BufferWords(p.keys).v[at];
    return uvec2(words.y ^ 0x80000000u, words.x);
  }
  uint bits = floatBitsToUint(BufferF32(p.keys).v[at]);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return uvec2(0xffffffffu, 0);
  return uvec2((bits >> 31) != 0 ? ~bits : bits | 0x80000000u, 0);
}

void main() {
  uint group = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x, me = gl_LocalInvocationID.x;
  uint chunks = (p.n + 255) / 256, row = group / chunks, i = group % chunks * 256 + me;
  if (row >= p.rows) return;
  bool there = i < p.n;
  uvec2 mine = there ? ordered(row * p.n + i) : uvec2(0);
  uint place = 0;
  for (uint first = 0; first < p.n; first += 256) {
    uint count = min(256u, p.n - first);
    if (me < count) others[me] = ordered(row * p.n + first + me);
    barrier();
    for (uint k = 0; k < count; ++k) {
      uvec2 other = others[k];
      bool same = other == mine;
      bool larger = other.x > mine.x || (other.x == mine.x && other.y > mine.y);
      place += larger || (same && first + k < i) ? 1 : 0;
    }
    barrier();
  }
  if (there && place < p.count) BufferWords(p.y).v[row * p.count + place] = uvec2(i, 0);
}
