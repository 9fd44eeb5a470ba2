#version 460
#extension GL_GOOGLE_include_directive : require
// Gradients of attention, the weights computed again from each row's logsumexp. Arithmetic-bound for long sequences. No atomics:
// one kernel owns 64 queries of a head and walks over keys for dq; another owns 64 keys of a group and walks over the queries of
// each of its heads for dk and dv. Both need of each row its logsumexp and Σ result · gradient, which a first kernel lays side by
// side.
//
// variant: attention_dq_64 PARTS=1 DQ
// variant: attention_dq_128 PARTS=2 DQ
// variant: attention_dq_256 PARTS=4 DQ
// variant: attention_dkv_64 PARTS=1 DKV
// variant: attention_dkv_128 PARTS=2 DKV
// variant: attention_dkv_256 PARTS=4 DKV

#include "attention.glsl"

layout(constant_id = 3) const uint MASK_BATCH = 0;  // strides of the mask
layout(constant_id = 4) const uint MASK_HEAD = 0;
layout(constant_id = 5) const uint MASK_QUERY = 0;
layout(constant_id = 6) const uint MASK_KEY = 0;

layout(push_constant, scalar) uniform Push {
  uvec2 q, k, v, mask, dy;
  uvec2 rows;      // [B, H, T, 2]: logsumexp, Σ y · dy
  uvec2 dk_or_dq, dv;
  uint q_strides[3], k_strides[3], v_strides[3], dy_strides[3];
  uint queries, keys;
  uint shape;  // heads a group, head size << 16, causal << 31
  float scale;
} p;

Rows rows_of(uvec2 address, uint strides[3], uint b, uint head, uint count) {
  return Rows(address, b * strides[0] + head * strides[1], strides[2], count);
}

// logsumexp and Σ y · dy of a query; one that is not there weighs nothing.
vec2 row_of(uint row_base, uint query) {
  return query < p.queries ? BufferVec2(p.rows).v[row_base + query] : vec2(minus_infinity(), 0.0);
}

// The weight of a score; 0 where the row attends to nothing.
float weight(float product, float logsumexp, uint b, uint head, uint query, uint key) {
  float score = masked(product, p.scale, p.mask, b * MASK_BATCH + head * MASK_HEAD, uvec2(MASK_QUERY, MASK_KEY), query, key, p.queries, p.keys);
  return score == minus_infinity() ? 0.0 : exp(score - logsumexp);
}

#ifdef DQ
void main() {
  unpack(p.shape);
  uint query0 = (gl_NumWorkGroups.x - 1 - gl_WorkGroupID.x) * TILE, head = gl_WorkGroupID.y, b = gl_WorkGroupID.z;
  uint kv_head = head / heads_per_group, row_base = (b * gl_NumWorkGroups.y + head) * p.queries;
  Rows q = rows_of(p.q, p.q_strides, b, head, p.queries), dy = rows_of(p.dy, p.dy_strides, b, head, p.queries);
  Rows k = rows_of(p.k, p.k_strides, b, kv_head, p.keys), v = rows_of(p.v, p.v_strides, b, kv_head, p.keys);
  vec2 rows[4];
  [[unroll]] for (uint r = 0; r < 4; ++r) rows[r] = row_of(row_base, query0 + ty() * 4 + r);
  vec4 dq[PARTS][4];
  clear(dq);
  uint end = causal ? min(p.keys, query0 + TILE) : p.keys;
  for (uint key0 = 0; key0 < end; key0 += TILE) {
    vec4 tile[4], dtile[4];
    [[unroll]] for (uint r = 0; r < 4; ++r) tile[r] = dtile[r] = vec4(0.0);
    add_scores(tile, q, query0, k, key0);
    add_scores(dtile, dy, query0, v, key0);
    [[unroll]] for (uint r = 0; r < 4; ++r) {
      [[unroll]] for (uint c = 0; c < 4; ++c) {
        float w = weight(tile[r][c], rows[r].x, b, head, query0 + ty() * 4 + r, key0 + tx() * 4 + c);
        tile[r][c] = w * (dtile[r][c] - rows[r].y) * p.scale;
      }
    }
    keep_tile(tile);
    add_weighted(dq, k, key0);
  }
  store_rows(p.dk_or_dq, row_base * head_size, query0, p.queries, dq);
}
#endif

#ifdef DKV
void main() {
  unpack(p.shape);
  uint key0 = gl_WorkGroupID.x * TILE, kv_head = gl_WorkGroupID.y, b = gl_WorkGroupID.z;
  uint heads = gl_NumWorkGroups.y * heads_per_group;
  Rows k = rows_of(p.k, p.k_strides, b, kv_head, p.keys), v = rows_of(p.v, p.v_strides, b, kv_head, p.keys);
  vec4 dk[PARTS][4], dv[PARTS][4];
  clear(dk);
  clear(dv);
  for (uint i = 0; i < heads_per_group; ++i) {
    uint head = kv_head * heads_per_group + i, row_base = (b * heads + head) * p.queries;
    Rows q = rows_of(p.q, p.q_strides, b, head, p.queries), dy = rows_of(p.dy, p.dy_strides, b, head, p.queries);
    // Rows of these tiles are keys, columns queries.
    for (uint query0 = causal ? key0 : 0; query0 < p.queries; query0 += TILE) {
      vec4 tile[4], dtile[4];
      [[unroll]] for (uint r = 0; r < 4; ++r) tile[r] = dtile[r] = vec4(0.0);
      add_scores(tile, k, key0, q, query0);
      add_scores(dtile, v, key0, dy, query0);
      [[unroll]] for (uint c = 0; c < 4; ++c) {
        uint query = query0 + tx() * 4 + c;
        vec2 row = row_of(row_base, query);
        [[unroll]] for (uint r = 0; r < 4; ++r) {
          float w = weight(tile[r][c], row.x, b, head, query, key0 + ty() * 4 + r);
          tile[r][c] = w;
          dtile[r][c] = w * (dtile[r][c] - row.y) * p.scale;
        }
      }
      keep_tile(tile);
      add_weighted(dv, dy, query0);
      barrier();
      keep_tile(dtile);
      add_weighted(dk, q, query0);
    }
  }
  uint base = (b * gl_NumWorkGroups.y + kv_head) * p.keys * head_size;
  store_rows(p.dk_or_dq, base, key0, p.keys, dk);
  store_rows(p.dv, base, key0, p.keys, dv);
}
#endif
