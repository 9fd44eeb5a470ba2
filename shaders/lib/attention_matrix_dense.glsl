// The operands of forward attention over whole tensors: a triangle, a window, an optional mask or documents, and
// logsumexp as a second result.
layout(constant_id = 7) const uint WINDOW = 0;  // as attention_limits.glsl tells
layout(constant_id = 8) const uint SOFTCAP = 0;
#include "attention_limits.glsl"

layout(push_constant, scalar) uniform Push {
  uvec2 q, k, v, mask, y, logsumexp;
  uint q_strides[3], k_strides[3], v_strides[3];  // of batch, head and row
  uint mask_strides[4];
  uint queries, keys;
  uint shape;  // heads per group, head size << 16, result packed as [B, T, H, D] << 30, causal << 31
  float scale;
} p;

uint first_key = 0, end_key;
uint mask_base, row_base;
Rows k, v;
uvec2 some, every;  // keys that a row, and that all rows of the subgroup attend to, if LIMITED

uvec2 keys_of(uint query) { return keys_of_query(p.mask, gl_WorkGroupID.z, query, p.queries, p.keys); }

uint first_row() { return (gl_NumWorkGroups.x - 1 - gl_WorkGroupID.x) * TILE; }

// Finds the keys that the rows from `first` on attend to.
bool find_keys(uint first) {
  uint head = gl_WorkGroupID.y, b = gl_WorkGroupID.z, kv_head = head / heads_per_group;
  mask_base = b * p.mask_strides[0] + head * p.mask_strides[1];
  row_base = (b * gl_NumWorkGroups.y + head) * p.queries;
  k = rows_of(p.k, p.k_strides, b, kv_head, p.keys);
  v = rows_of(p.v, p.v_strides, b, kv_head, p.keys);
  end_key = causal ? min(p.keys, first + TILE) : p.keys;
  if (LIMITED) {
    uint own = first + gl_SubgroupID * SPAN, newest = p.queries - 1;
    first_key = subgroupBroadcastFirst(keys_of(first).x);
    end_key = subgroupBroadcastFirst(keys_of(min(first + TILE - 1, newest)).y);
    uvec2 oldest = keys_of(own), last = keys_of(min(own + SPAN - 1, newest));
    some = subgroupBroadcastFirst(uvec2(oldest.x, last.y));
    every = subgroupBroadcastFirst(uvec2(last.x, oldest.y));
  }
  return true;
}

void load_tiles(out uvec4 next_k[LOADS], out uvec4 next_v[LOADS], uint key0) {
  load_tile(next_k, k, key0);
  load_tile(next_v, v, key0);
}

Rows query_rows() { return rows_of(p.q, p.q_strides, gl_WorkGroupID.z, gl_WorkGroupID.y, p.queries); }

// Whether any score of a subgroup's tile counts, and whether all of the rows `first` to `last` do, unchanged.
bool any_seen(uint query0, uint key0) {
  if (LIMITED) return key0 < some.y && key0 + COLUMNS > some.x;
  return !causal || key0 < query0 + SPAN;
}
bool all_seen(uint first, uint last, uint key0) {
  if (HAS_MASK || SOFTCAP != 0) return false;
  if (LIMITED) return key0 >= every.x && key0 + COLUMNS <= every.y;
  return key0 + COLUMNS <= p.keys && !(causal && key0 + COLUMNS > first + 1);
}

// A score as input of the softmax: in units of log 2 if there is a mask or a soft cap; otherwise the caller multiplies
// it by `unit()`.
float unit() { return !HAS_MASK && SOFTCAP == 0 ? p.scale * LOG2E : 1.0; }
float seen(const in uint row, const in uint column, const in float product, const in uint query0, const in uint key0) {
  uint query = query0 + row, key = key0 + column;
  if (key >= p.keys || (causal && key > query)) return minus_infinity();
  if (LIMITED && !within(keys_of(query), key)) return minus_infinity();
  if (!HAS_MASK) return SOFTCAP == 0 ? product : capped(product * p.scale) * LOG2E;
  if (query >= p.queries) return 0.0;
  float m = load_float(p.mask, mask_base + query * p.mask_strides[2] + key * p.mask_strides[3], MASK_DTYPE);
  if (MASK_DTYPE == BOOL) return m != 0.0 ? capped(product * p.scale) * LOG2E : minus_infinity();
  return capped(product * p.scale) * LOG2E + m * LOG2E;
}

void write_logsumexp(uint query, float value) {
  if (query < p.queries) BufferF32(p.logsumexp).v[row_base + query] = value;
}

void write_result(Sums result[RESULTS], uint query0) {
  uint head = gl_WorkGroupID.y, heads = gl_NumWorkGroups.y;
  store_rows(result, 1.0, uvec2(0), head_rows(p.y, gl_WorkGroupID.z, head, heads, p.queries, packed, heads), query0);
}
