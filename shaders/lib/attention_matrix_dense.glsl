// The operands of forward attention over whole tensors: an optional mask, a triangle, and logsumexp as a second result.
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

uint first_row() { return (gl_NumWorkGroups.x - 1 - gl_WorkGroupID.x) * TILE; }

// Finds the keys that the rows from `first` on attend to.
bool find_keys(uint first) {
  uint head = gl_WorkGroupID.y, b = gl_WorkGroupID.z, kv_head = head / heads_per_group;
  mask_base = b * p.mask_strides[0] + head * p.mask_strides[1];
  row_base = (b * gl_NumWorkGroups.y + head) * p.queries;
  k = rows_of(p.k, p.k_strides, b, kv_head, p.keys);
  v = rows_of(p.v, p.v_strides, b, kv_head, p.keys);
  end_key = causal ? min(p.keys, first + TILE) : p.keys;
  return true;
}

void load_tiles(out uvec4 next_k[LOADS], out uvec4 next_v[LOADS], uint key0) {
  load_tile(next_k, k, key0);
  load_tile(next_v, v, key0);
}

Rows query_rows() { return rows_of(p.q, p.q_strides, gl_WorkGroupID.z, gl_WorkGroupID.y, p.queries); }

// Whether any score of a subgroup's tile counts, and whether all of the rows `first` to `last` do, unchanged.
bool any_seen(uint query0, uint key0) { return !causal || key0 < query0 + SPAN; }
bool all_seen(uint first, uint last, uint key0) {
  return MASK_DTYPE == NO_MASK && key0 + COLUMNS <= p.keys && !(causal && key0 + COLUMNS > first + 1);
}

// A score as input of the softmax: in units of log 2 if there is a mask; otherwise the caller multiplies it by
// `unit()`.
float unit() { return MASK_DTYPE == NO_MASK ? p.scale * LOG2E : 1.0; }
float seen(const in uint row, const in uint column, const in float product, const in uint query0, const in uint key0) {
  uint query = query0 + row, key = key0 + column;
  if (key >= p.keys || (causal && key > query)) return minus_infinity();
  if (MASK_DTYPE == NO_MASK) return product;
  if (query >= p.queries) return 0.0;
  float m = load_float(p.mask, mask_base + query * p.mask_strides[2] + key * p.mask_strides[3], MASK_DTYPE);
  if (MASK_DTYPE == BOOL) return m != 0.0 ? product * p.scale * LOG2E : minus_infinity();
  return product * p.scale * LOG2E + m * LOG2E;
}

void write_logsumexp(uint query, float value) {
  if (query < p.queries) BufferF32(p.logsumexp).v[row_base + query] = value;
}

void write_result(Sums result[RESULTS], uint query0) {
  uint head = gl_WorkGroupID.y, heads = gl_NumWorkGroups.y;
  store_rows(result, 1.0, 0, head_rows(p.y, gl_WorkGroupID.z, head, heads, p.queries, packed, heads), query0);
}
