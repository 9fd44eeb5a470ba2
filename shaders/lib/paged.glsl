// Rows of a paged cache of keys and values: f32, f16, bf16, or u8 for Q8_0 (an f16 scale and 32 quants for each 32
// elements). [blocks, heads, CACHE_BLOCK, row]
#ifndef ETNA_PAGED_GLSL
#define ETNA_PAGED_GLSL

#include "vectors.glsl"

const uint CACHE_BLOCK = 64;

uint cache_row_bytes(uint size, uint dtype) {
  return dtype == U8 ? size / 32 * 34 : dtype == F32 ? size * 4 : size * 2;
}

// A cache may have more than 2^32 bytes.
uvec2 advanced(uvec2 address, uint count, uint bytes) {
  uint high, low, carry;
  umulExtended(count, bytes, high, low);
  uint sum = uaddCarry(address.x, low, carry);
  return uvec2(sum, address.y + high + carry);
}

// The address of a block's rows of a head.
uvec2 block_address(uvec2 cache, uint block, uint heads, uint head, uint row_bytes) {
  return advanced(cache, block * heads + head, CACHE_BLOCK * row_bytes);
}

// Up to four elements of a row from i on; i is a multiple of 4. `width` as in load_vector().
vec4 load_cached(uvec2 block, uint row, uint size, uint i, uint count, uint dtype, uint width) {
  if (dtype != U8) return load_vector(block, row * size + i, count, dtype, width);
  uint at = (row * (size / 32) + i / 32) * 17;
  float scale = half_to_float(uint(BufferU16(block).v[at]));
  uint low = uint(BufferU16(block).v[at + 1 + i % 32 / 2]), high = uint(BufferU16(block).v[at + 2 + i % 32 / 2]);
  int word = int(low | high << 16);
  return scale * vec4(bitfieldExtract(word, 0, 8), bitfieldExtract(word, 8, 8), bitfieldExtract(word, 16, 8),
                      bitfieldExtract(word, 24, 8));
}
vec4 load_cached(uvec2 block, uint row, uint size, uint i, uint dtype, uint width) {
  return load_cached(block, row, size, i, 4, dtype, width);
}

// The first position that a query attends to. `limit`: a window of so many positions, 0: none; with the bit CHUNKED,
// chunks of so many.
const uint CHUNKED = 0x80000000u;
uint oldest_of(uint position, uint limit) {
  if (limit > CHUNKED) return position - position % (limit - CHUNKED);
  return limit > 0 && position >= limit ? position + 1 - limit : 0;
}

// The positions that the queries of a prompt attend to, in `chunks` parts: from `base` on, `size` in each.
struct Span {
  uint base, size;
};
// @param past position of the first of `steps` queries @param reach positions that the table has
// @param least the fewest positions of a part @param chunks so many parts are enough for any position
Span balanced_span(int past, uint steps, uint limit, uint reach, uint chunks, uint least) {
  int newest = past + int(steps) - 1;
  uint end = newest < 0 ? 0 : min(uint(newest) + 1, reach);
  uint begin = oldest_of(uint(max(past, 0)), limit);
  uint base = min(begin, end) / CACHE_BLOCK * CACHE_BLOCK;
  uint blocks = (end - base + CACHE_BLOCK - 1) / CACHE_BLOCK;
  return Span(base, max(least, (blocks + chunks - 1) / chunks * CACHE_BLOCK));
}

#endif
