// The operands of forward attention of a prompt over a paged cache. A tile of keys is inside one block, whose number is
// read a tile ahead. What loops and branches depend on is broadcast, so that a subgroup stays together, as matrix units
// need it.
#define SAME_FOR_ALL(value) subgroupBroadcastFirst(value)
#include "math.glsl"
#include "paged_span.glsl"

layout(constant_id = 7) const uint WHOLE = 1;  // one chunk holds all positions: the result is written, not a part
layout(constant_id = 8) const uint CAPPED = 0;
// Q8: the cache is in Q8_0, else in the dtype of the queries. A branch on a constant would do, but has cost two thirds
// of the speed on an H200: the driver kept arrays of the tile in memory for the branch that it dropped later.
#ifdef Q8
const uint CACHE_DTYPE = U8;
#else
const uint CACHE_DTYPE = DTYPE;
#endif

bool there;  // the tile that was loaded last has a block

uint first_row() { return first_row_of(TILE); }

bool find_keys(uint first) {
  bool some = find_span(first, first + TILE - 1);
  coming = some ? block_at(first_key) : -1;
  return some || WHOLE != 0;
}

uvec4 load_cached_vectors(uvec2 block, uint row, uint i) {
#ifdef Q8
  vec4 a = load_cached(block, row, head_size, i * 8, U8, 1), b = load_cached(block, row, head_size, i * 8 + 4, U8, 1);
  return uvec4(narrow_pair(a.xy, DTYPE), narrow_pair(a.zw, DTYPE), narrow_pair(b.xy, DTYPE), narrow_pair(b.zw, DTYPE));
#else
  return BufferVectors(block).v[row * head_size / 8 + i];
#endif
}

// A thread's share of `count` rows of a block, from `first` on. Positions past the end may hold anything, which a
// weight of 0 would not hide.
void load_cached_tile(out uvec4 next[LOADS], uvec2 block, uint first, uint count) {
  [[unroll]] for (uint i = 0; i < LOADS; ++i) {
    uint at = i * THREADS + gl_LocalInvocationID.x, row = at / VECTORS, vector = at % VECTORS;
    if (COLUMNS * VECTORS % THREADS == 0 || at < COLUMNS * VECTORS)
      next[i] = row < count && vector * 8 < head_size ? load_cached_vectors(block, first + row, vector) : uvec4(0);
  }
}

void load_tiles(out uvec4 next_k[LOADS], out uvec4 next_v[LOADS], uint key0) {
  int found = SAME_FOR_ALL(coming);
  there = found >= 0;
  uint bytes = cache_row_bytes(head_size, CACHE_DTYPE), block = uint(max(found, 0)), first = key0 % CACHE_BLOCK;
  uint count = there && key0 < end_key ? end_key - key0 : 0;
  coming = block_at(key0 + COLUMNS);
  load_cached_tile(next_k, block_address(p.keys, block, p.groups, gl_WorkGroupID.y, bytes), first, count);
  load_cached_tile(next_v, block_address(p.values, block, p.groups, gl_WorkGroupID.y, bytes), first, count);
}

Rows query_rows() {
  uint heads = p.groups * SHARED;
  return Rows(p.q, (gl_WorkGroupID.z * p.steps * heads + gl_WorkGroupID.y * SHARED) * head_size,
              heads * head_size, rows());
}

bool any_seen(uint query0, uint key0) { return there && int(key0) <= position_of(query0 + SPAN - 1); }
bool all_seen(uint first, uint last, uint key0) {
  return CAPPED == 0 && attends_from(position_of(first), key0 + COLUMNS - 1) && attends_from(position_of(last), key0);
}

float unit() { return CAPPED == 0 ? p.scale * LOG2E : 1.0; }
float seen(const in uint row, const in uint column, const in float product, const in uint query0, const in uint key0) {
  if (!attends_from(position_of(query0 + row), key0 + column)) return minus_infinity();
  return CAPPED == 0 ? product : p.softcap * m_tanh(product * p.scale / p.softcap) * LOG2E;
}

void write_logsumexp(uint row, float value) {
  if (WHOLE == 0 && row < rows()) write_partial_sum(row, head_size, value);
}

void write_result(Sums result[RESULTS], uint query0) {
  if (WHOLE != 0) {
    Rows y = query_rows();
    y.address = p.y;
    store_rows(result, 1.0, uvec2(0), y, query0);
    return;
  }
  uint base = gl_SubgroupID * OUT;
  [[unroll]] for (uint r = 0; r < ROWS; ++r) {
    [[unroll]] for (uint d0 = 0; d0 < BLOCKS; d0 += 4) {
      synchronize();
      [[unroll]] for (uint d = d0; d < (d0 + 4 < BLOCKS ? d0 + 4 : BLOCKS); ++d)
        coopMatStore(result[r * BLOCKS + d], pool, base + (d - d0) * 4, OUT_PITCH, ROW_MAJOR);
      synchronize();
      for (uint i = gl_SubgroupInvocationID; i < M * 16; i += gl_SubgroupSize) {
        uint row = query0 + r * M + i / 16, column = d0 * 16 + i % 16 * 4;
        if (row >= rows() || column >= head_size) continue;
        vec4 four = uintBitsToFloat(pool[base + i / 16 * OUT_PITCH + i % 16]);
        uint at = partial_at(row, head_size) + column;
        BufferVec2(p.partial).v[at / 2] = four.xy;
        BufferVec2(p.partial).v[at / 2 + 1] = four.zw;
      }
    }
  }
}
