#version 460
#extension GL_GOOGLE_include_directive : require
// The first positions of sequences, gathered from a paged cache of keys or values: the rows of one head after those of
// another, in any dtype. Bytes-bound; a thread has four neighbours.
//
// variant: cached_rows

#include "paged.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint CACHE_DTYPE = 1;
layout(constant_id = 1) const uint CACHE_WIDTH = 1;
layout(constant_id = 2) const uint DTYPE = 1;
layout(constant_id = 3) const uint WIDTH = 1;

layout(push_constant, scalar) uniform Push {
  uvec2 cache, table, y;
  uint quads, all;  // four elements each: of a row, and of all rows
  uint steps, heads, size, width, blocks;  // steps: rows of a head; width: columns of the table
} p;

void main() {
  uint quad = (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * 256 + gl_LocalInvocationID.x;
  if (quad >= p.all) return;
  uint row = quad / p.quads, i = quad % p.quads * 4, position = row % p.steps, head = row / p.steps % p.heads;
  uint batch = row / p.steps / p.heads;
  int block = BufferI32(p.table).v[batch * p.width + position / CACHE_BLOCK];
  uint count = min(4, p.size - i);
  vec4 values = vec4(0.0);
  if (block >= 0 && uint(block) < p.blocks) {
    uvec2 from = block_address(p.cache, uint(block), p.heads, head, cache_row_bytes(p.size, CACHE_DTYPE));
    values = load_cached(from, position % CACHE_BLOCK, p.size, i, count, CACHE_DTYPE, CACHE_WIDTH);
  }
  store_vector(p.y, row * p.size + i, count, DTYPE, WIDTH, values);
}
