#version 460
#extension GL_GOOGLE_include_directive : require
// Attention, forward, without storing the scores (online softmax, Dao et al. 2022). Arithmetic-bound for long
// sequences. A workgroup owns 64 queries of a head and iterates over the keys in tiles of 64. Causal masks end the loop
// at the diagonal; the longest workgroups start first. Eight threads share a row; each keeps the row's maximum and its
// own part of the sum of weights.
//
// variant: attention_64 HEAD_TILES=1
// variant: attention_128 HEAD_TILES=2
// variant: attention_paged_64 HEAD_TILES=1 PAGED
// variant: attention_paged_128 HEAD_TILES=2 PAGED
// variant: attention_paged_q8_64 HEAD_TILES=1 PAGED Q8
// variant: attention_paged_q8_128 HEAD_TILES=2 PAGED Q8

#include "attention.glsl"

#ifndef PAGED
layout(push_constant, scalar) uniform Push {
  uvec2 q, k, v, mask, y, logsumexp;
  uint q_strides[3], k_strides[3], v_strides[3];  // of batch, head and row
  uint mask_strides[4];
  uint queries, keys;
  uint shape;  // heads per group, head size << 16, result packed as [B, T, H, D] << 30, causal << 31
  float scale;
} p;
#endif

// Shares one value per row among the row's eight threads, through `chunk`: row r starts at 2 r. Call barrier() before
// reading it, and before it is overwritten.
void bring(uint r, float value) { chunk[row_of(r) * 2 + tx() / 4][tx() % 4] = value; }

void main() {
  unpack(p.shape);
#ifdef PAGED
  // Of a prompt, over a paged cache: a row is one of the heads that share keys, a tile of keys one block.
  uint query0 = first_row_of(TILE), queries = rows(), all_heads = p.groups * SHARED;
  if (!ETNA_UNIFORM(find_span(query0, query0 + TILE - 1)) && WHOLE == 0) return;
  uint begin = ETNA_UNIFORM(first_key), end = ETNA_UNIFORM(end_key);
  Rows q = Rows(p.q, (gl_WorkGroupID.z * p.steps * all_heads + gl_WorkGroupID.y * SHARED) * head_size,
                all_heads * head_size, queries);
  Rows y = Rows(p.y, q.base, q.stride, queries);
  int positions[4];
  [[unroll]] for (uint r = 0; r < 4; ++r) positions[r] = position_of(query0 + row_of(r));
#else
  if (MASK_DTYPE == AFTER_PARTS && ETNA_UNIFORM(all_split(p.mask))) return;
  uint query0 = (gl_NumWorkGroups.x - 1 - gl_WorkGroupID.x) * TILE, head = gl_WorkGroupID.y, b = gl_WorkGroupID.z;
  uint kv_head = head / heads_per_group;
  Rows q = Rows(p.q, b * p.q_strides[0] + head * p.q_strides[1], p.q_strides[2], p.queries);
  Rows k = Rows(p.k, b * p.k_strides[0] + kv_head * p.k_strides[1], p.k_strides[2], p.keys);
  Rows v = Rows(p.v, b * p.v_strides[0] + kv_head * p.v_strides[1], p.v_strides[2], p.keys);
  uint mask_base = b * p.mask_strides[0] + head * p.mask_strides[1];
  uvec2 mask_strides = uvec2(p.mask_strides[2], p.mask_strides[3]);

  uint heads = gl_NumWorkGroups.y, row_base = (b * heads + head) * p.queries, queries = p.queries;
  uint begin = 0, end = causal ? min(p.keys, query0 + TILE) : p.keys;
  Rows y = head_rows(p.y, b, head, heads, queries, packed, heads);
  uvec2 seen[4];
  if (LIMITED) {
    begin = ETNA_UNIFORM(keys_of_query(p.mask, b, query0, queries, p.keys).x);
    end = ETNA_UNIFORM(keys_of_query(p.mask, b, min(query0 + TILE, queries) - 1, queries, p.keys).y);
    [[unroll]] for (uint r = 0; r < 4; ++r) seen[r] = keys_of_query(p.mask, b, query0 + row_of(r), queries, p.keys);
  }
#endif
  uint at = 0;
  do {
    vec4 result[HEAD_TILES][4][2];
    clear(result);
    float largest[4], sum[4];
    [[unroll]] for (uint r = 0; r < 4; ++r) {
      largest[r] = minus_infinity();
      sum[r] = 0.0;
    }
    [[dont_unroll]] for (uint key0 = begin; key0 < end; key0 += TILE) {
#ifdef PAGED
      int block = ETNA_UNIFORM(block_at(key0));
      if (block < 0) continue;
      uint bytes = cache_row_bytes(head_size, CACHE_DTYPE);
      CachedRows k = CachedRows(block_address(p.keys, uint(block), p.groups, gl_WorkGroupID.y, bytes), key0, end);
      CachedRows v = CachedRows(block_address(p.values, uint(block), p.groups, gl_WorkGroupID.y, bytes), key0, end);
#endif
      vec4 tile[4][2], values[LOADS];
      clear(tile);
      add_scores(tile, q, query0, k, key0);
      load_keys(values, v, key0, at);
      [[unroll]] for (uint r = 0; r < 4; ++r) {
        [[unroll]] for (uint h = 0; h < 2; ++h) {
          [[unroll]] for (uint c = 0; c < 4; ++c)
#ifdef PAGED
            tile[r][h][c] = masked(tile[r][h][c], positions[r], key0 + column_of(h) + c);
#else
            tile[r][h][c] = LIMITED && !within(seen[r], key0 + column_of(h) + c)
                                ? minus_infinity()
                                : masked(tile[r][h][c], p.scale, p.mask, mask_base, mask_strides, query0 + row_of(r),
                                         key0 + column_of(h) + c, p.queries, p.keys);
#endif
        }
        vec4 top = max(tile[r][0], tile[r][1]);
        bring(r, max(max(top.x, top.y), max(top.z, top.w)));
      }
      barrier();
      [[unroll]] for (uint r = 0; r < 4; ++r) {
        vec4 top = max(chunk[row_of(r) * 2], chunk[row_of(r) * 2 + 1]);
        float onto = max(max(max(top.x, top.y), max(top.z, top.w)), largest[r]);
        float factor = largest[r] == onto ? 1.0 : exp(largest[r] - onto);
        largest[r] = onto;
        sum[r] *= factor;
        [[unroll]] for (uint n = 0; n < HEAD_TILES; ++n) {
          result[n][r][0] *= factor;
          result[n][r][1] *= factor;
        }
        [[unroll]] for (uint h = 0; h < 2; ++h) {
          // Keeps NaN scores visible: max() may have dropped one.
          [[unroll]] for (uint c = 0; c < 4; ++c) {
            tile[r][h][c] = tile[r][h][c] == minus_infinity() ? 0.0 : exp(tile[r][h][c] - onto);
            sum[r] += tile[r][h][c];
          }
        }
      }
      keep_tile(tile);
      add_weighted(result, values, v, key0, at);
    }

    barrier();
    [[unroll]] for (uint r = 0; r < 4; ++r) bring(r, sum[r]);
    barrier();
    [[unroll]] for (uint r = 0; r < 4; ++r) {
      vec4 sums = chunk[row_of(r) * 2] + chunk[row_of(r) * 2 + 1];
      // a row without a key to attend to gives 0
      float all = (sums.x + sums.y) + (sums.z + sums.w), inverse = all == 0.0 ? 0.0 : 1.0 / all;
      uint query = query0 + row_of(r);
      if (at == 0 && tx() == 0 && query < queries) {
        float logsumexp = all == 0.0 ? minus_infinity() : largest[r] + log(all);
#ifdef PAGED
        if (WHOLE == 0) write_partial_sum(query, head_size, logsumexp);
#else
        BufferF32(p.logsumexp).v[row_base + query] = logsumexp;
#endif
      }
      [[unroll]] for (uint n = 0; n < HEAD_TILES; ++n) {
        result[n][r][0] *= inverse;
        result[n][r][1] *= inverse;
      }
    }
    store_rows(y, query0, at, result);
    at += 64 * HEAD_TILES;
  } while (at < head_size);
}
