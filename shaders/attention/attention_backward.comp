#version 460
#extension GL_GOOGLE_include_directive : require
// Gradients of attention; the weights are recomputed from each row's logsumexp. Arithmetic-bound for long sequences. No
// atomics: for dq a workgroup owns 64 queries of a head and iterates over the keys; for dk and dv it owns 64 keys of a
// group and iterates over the queries of each of the group's heads. attention_rows computes Σ result · gradient of each
// query. Sequences of one tile compute it here, which saves that kernel and the barrier after it (worth 11 % in f32 and
// 24 % in bf16 at gpt2's shapes).
//
// If q, k and v are slices of one packed tensor, their gradients are slices of one too, with interleaved bytes. One
// dispatch then computes all of them; the first workgroups along x compute those of the keys.
//
// variant: attention_dq_64 HEAD_TILES=1 DQ
// variant: attention_dq_128 HEAD_TILES=2 DQ
// variant: attention_dkv_64 HEAD_TILES=1 DKV
// variant: attention_dkv_128 HEAD_TILES=2 DKV
// variant: attention_dqkv_64 HEAD_TILES=1 DQ DKV PACKED
// variant: attention_dqkv_128 HEAD_TILES=2 DQ DKV PACKED

#include "attention.glsl"

layout(constant_id = 6) const uint MASK_BATCH = 0;  // strides of the mask
layout(constant_id = 7) const uint MASK_HEAD = 0;
layout(constant_id = 8) const uint MASK_QUERY = 0;
layout(constant_id = 9) const uint MASK_KEY = 0;
layout(constant_id = 10) const uint ROWS_KNOWN = 0;

layout(push_constant, scalar) uniform Push {
  uvec2 q, k, v, mask, dy;
  uvec2 y, logsumexp;  // of the forward pass, contiguous; if ROWS_KNOWN, y is Σ y · dy of each row
  uvec2 gradient, dv;  // dq, or dk and dv, or the packed gradient
  uint q_strides[3], kv_strides[3], dy_strides[3];  // of batch, head and row
  uint queries, keys;
  uint shape;  // heads per group, head size << 16, causal << 31
  float scale;
} p;

#ifdef PACKED
const bool PARTS_OF_ONE = true;
#else
const bool PARTS_OF_ONE = false;
#endif

Rows rows_of(uvec2 address, uint strides[3], uint b, uint head, uint count) {
  return Rows(address, b * strides[0] + head * strides[1], strides[2], count);
}

shared vec2 statistics[TILE];

// Writes logsumexp and Σ y · dy of the queries from query0 on into `statistics`. A query past the end gets weight 0. If
// the sums are not known, two threads per row compute them.
void find_statistics(Rows y, Rows dy, uint row_base, uint query0) {
  uint id = gl_LocalInvocationID.x, query = query0 + id / 2;
  barrier();
  if (ROWS_KNOWN == 0) {
    float sum = 0.0;
    for (uint d = (id & 1u) * 4; d < head_size; d += 8) sum += dot(load_row(y, query, d), load_row(dy, query, d));
    statistics[id / 2][id & 1u] = sum;
    barrier();
  }
  if (id >= TILE) return;
  bool there = query0 + id < p.queries;
  uint row = row_base + query0 + id;
  float sum = !there ? 0.0 : ROWS_KNOWN != 0 ? BufferF32(p.y).v[row] : statistics[id].x + statistics[id].y;
  statistics[id] = vec2(there ? BufferF32(p.logsumexp).v[row] : minus_infinity(), sum);
}

// The weight of a score; 0 if the row attends to nothing. `seen`: the columns that the row of a tile attends to.
float weight(float product, float logsumexp, uint b, uint head, uint query, uint key, uvec2 seen, uint column) {
  if (LIMITED && !within(seen, column)) return 0.0;
  float score = masked(product, p.scale, p.mask, b * MASK_BATCH + head * MASK_HEAD, uvec2(MASK_QUERY, MASK_KEY), query,
                       key, p.queries, p.keys);
  return score == minus_infinity() ? 0.0 : exp(score - logsumexp);
}

// The gradient of a product of a query and a key from that of its weight. What is hidden has none, whatever it holds.
float product_gradient(float product, float weight, float gradient, float sum) {
  if ((LIMITED || SOFTCAP != 0) && weight == 0.0) return 0.0;
  float found = weight * (gradient - sum) * p.scale;
  return SOFTCAP == 0 ? found : found * cap_derivative(capped(product * p.scale));
}

#ifdef DQ
void queries_of_a_head(uint query0, uint head, uint heads, uint b) {
  uint kv_head = head / heads_per_group, groups = heads / heads_per_group, row_base = (b * heads + head) * p.queries;
  Rows q = rows_of(p.q, p.q_strides, b, head, p.queries), dy = rows_of(p.dy, p.dy_strides, b, head, p.queries);
  Rows k = rows_of(p.k, p.kv_strides, b, kv_head, p.keys), v = rows_of(p.v, p.kv_strides, b, kv_head, p.keys);
  find_statistics(head_rows(p.y, b, head, heads, p.queries, PARTS_OF_ONE, heads), dy, row_base, query0);
  uint first = 0, end = causal ? min(p.keys, query0 + TILE) : p.keys;
  uvec2 seen[4];
  if (LIMITED) {
    first = ETNA_UNIFORM(keys_of_query(p.mask, b, query0, p.queries, p.keys).x);
    end = ETNA_UNIFORM(keys_of_query(p.mask, b, min(query0 + TILE, p.queries) - 1, p.queries, p.keys).y);
    [[unroll]] for (uint r = 0; r < 4; ++r) seen[r] = keys_of_query(p.mask, b, query0 + row_of(r), p.queries, p.keys);
  }
  [[dont_unroll]] for (uint at = 0; at < head_size; at += 64 * HEAD_TILES) {
    vec4 dq[HEAD_TILES][4][2];
    clear(dq);
    [[dont_unroll]] for (uint key0 = first; key0 < end; key0 += TILE) {
      vec4 tile[4][2], dtile[4][2], next[LOADS];
      clear(tile);
      clear(dtile);
      add_scores(tile, q, query0, k, key0);
      add_scores(dtile, dy, query0, v, key0);
      load_keys(next, k, key0, at);
      [[unroll]] for (uint r = 0; r < 4; ++r) {
        vec2 row = statistics[row_of(r)];
        [[unroll]] for (uint h = 0; h < 2; ++h) {
          [[unroll]] for (uint c = 0; c < 4; ++c) {
            uint key = key0 + column_of(h) + c;
            float w = weight(tile[r][h][c], row.x, b, head, query0 + row_of(r), key, seen[r], key);
            tile[r][h][c] = product_gradient(tile[r][h][c], w, dtile[r][h][c], row.y);
          }
        }
      }
      keep_tile(tile);
      add_weighted(dq, next, k, key0, at);
    }
    store_rows(head_rows(p.gradient, b, head, heads, p.queries, PARTS_OF_ONE, heads + 2 * groups), query0, at, dq);
  }
}
#endif

#ifdef DKV
void keys_of_a_group(uint key0, uint kv_head, uint groups, uint b) {
  uint heads = groups * heads_per_group, width = heads + 2 * groups;
  Rows k = rows_of(p.k, p.kv_strides, b, kv_head, p.keys), v = rows_of(p.v, p.kv_strides, b, kv_head, p.keys);
  uint first = causal ? key0 : 0, end = p.queries;
  uvec2 seen[4];
  if (LIMITED) {
    first = ETNA_UNIFORM(queries_of_key(p.mask, b, key0, p.queries).x);
    end = ETNA_UNIFORM(queries_of_key(p.mask, b, min(key0 + TILE, p.keys) - 1, p.queries).y);
    [[unroll]] for (uint r = 0; r < 4; ++r) seen[r] = queries_of_key(p.mask, b, key0 + row_of(r), p.queries);
  }
  [[dont_unroll]] for (uint at = 0; at < head_size; at += 64 * HEAD_TILES) {
    vec4 dk[HEAD_TILES][4][2], dv[HEAD_TILES][4][2];
    clear(dk);
    clear(dv);
    [[dont_unroll]] for (uint i = 0; i < heads_per_group; ++i) {
      uint head = kv_head * heads_per_group + i, row_base = (b * heads + head) * p.queries;
      Rows q = rows_of(p.q, p.q_strides, b, head, p.queries), dy = rows_of(p.dy, p.dy_strides, b, head, p.queries);
      Rows y = head_rows(p.y, b, head, heads, p.queries, PARTS_OF_ONE, heads);
      // In these tiles rows are keys and columns are queries.
      [[dont_unroll]] for (uint query0 = first; query0 < end; query0 += TILE) {
        vec4 tile[4][2], dtile[4][2], next[LOADS];
        find_statistics(y, dy, row_base, query0);
        clear(tile);
        clear(dtile);
        add_scores(tile, k, key0, q, query0);
        add_scores(dtile, v, key0, dy, query0);
        load_keys(next, dy, query0, at);
        [[unroll]] for (uint h = 0; h < 2; ++h) {
          [[unroll]] for (uint c = 0; c < 4; ++c) {
            vec2 row = statistics[column_of(h) + c];
            [[unroll]] for (uint r = 0; r < 4; ++r) {
              uint query = query0 + column_of(h) + c;
              float w = weight(tile[r][h][c], row.x, b, head, query, key0 + row_of(r), seen[r], query);
              dtile[r][h][c] = product_gradient(tile[r][h][c], w, dtile[r][h][c], row.y);
              tile[r][h][c] = w;
            }
          }
        }
        keep_tile(tile);
        add_weighted(dv, next, dy, query0, at);
        load_keys(next, q, query0, at);
        barrier();
        keep_tile(dtile);
        add_weighted(dk, next, q, query0, at);
      }
    }
#ifdef PACKED
    store_rows(head_rows(p.gradient, b, heads + kv_head, groups, p.keys, PARTS_OF_ONE, width), key0, at, dk);
    store_rows(head_rows(p.gradient, b, heads + groups + kv_head, groups, p.keys, PARTS_OF_ONE, width), key0, at, dv);
#else
    store_rows(head_rows(p.gradient, b, kv_head, groups, p.keys, PARTS_OF_ONE, width), key0, at, dk);
    store_rows(head_rows(p.dv, b, kv_head, groups, p.keys, PARTS_OF_ONE, width), key0, at, dv);
#endif
  }
}
#endif

void main() {
  if (MASK_DTYPE == AFTER_PARTS && ETNA_UNIFORM(all_split(p.mask))) return;
  unpack(p.shape);
  uint x = gl_WorkGroupID.x, y = gl_WorkGroupID.y, b = gl_WorkGroupID.z, last = gl_NumWorkGroups.x - 1;
#ifdef PACKED
  // There are as many queries as keys. Each head has its own row of workgroups; heads beyond the number of groups have
  // no keys.
  uint tiles = gl_NumWorkGroups.x / 2, groups = gl_NumWorkGroups.y / heads_per_group;
  if (x >= tiles) queries_of_a_head((last - x) * TILE, y, gl_NumWorkGroups.y, b);
  else if (y < groups) keys_of_a_group(x * TILE, y, groups, b);
#elif defined(DQ)
  queries_of_a_head((last - x) * TILE, y, gl_NumWorkGroups.y, b);
#else
  keys_of_a_group(x * TILE, y, gl_NumWorkGroups.y, b);
#endif
}
