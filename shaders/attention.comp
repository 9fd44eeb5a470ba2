#version 460
#extension GL_GOOGLE_include_directive : require
// Attention, forward, without ever storing the scores (online softmax, Dao et al. 2022). Arithmetic-bound for long sequences. A
// workgroup owns 64 queries of a head and walks over the keys, 64 at a time; causal blocks end at the diagonal, and the longest
// come first.
//
// variant: attention_64 PARTS=1
// variant: attention_128 PARTS=2
// variant: attention_256 PARTS=4

#include "attention.glsl"

layout(push_constant, scalar) uniform Push {
  uvec2 q, k, v, mask, y, logsumexp;
  uint q_strides[3], k_strides[3], v_strides[3];  // of batch, head and row
  uint mask_strides[4];
  uint queries, keys;
  uint shape;  // heads a group, head size << 16, result packed as [B, T, H, D] << 30, causal << 31
  float scale;
} p;

shared float maxima[256];
shared float sums_of[256];
shared float factors[64];

void main() {
  unpack(p.shape);
  uint query0 = (gl_NumWorkGroups.x - 1 - gl_WorkGroupID.x) * TILE, head = gl_WorkGroupID.y, b = gl_WorkGroupID.z;
  uint kv_head = head / heads_per_group;
  Rows q = Rows(p.q, b * p.q_strides[0] + head * p.q_strides[1], p.q_strides[2], p.queries);
  Rows k = Rows(p.k, b * p.k_strides[0] + kv_head * p.k_strides[1], p.k_strides[2], p.keys);
  Rows v = Rows(p.v, b * p.v_strides[0] + kv_head * p.v_strides[1], p.v_strides[2], p.keys);
  uint mask_base = b * p.mask_strides[0] + head * p.mask_strides[1];
  uvec2 mask_strides = uvec2(p.mask_strides[2], p.mask_strides[3]);

  vec4 result[PARTS][4];
  clear(result);
  // Softmax: four threads a row, 16 of its 64 scores each; all four keep the row's maximum and sum.
  uint id = gl_LocalInvocationID.x, row = id >> 2, quarter = id & 3u;
  float largest = minus_infinity(), sum = 0.0;
  uint end = causal ? min(p.keys, query0 + TILE) : p.keys;
  for (uint key0 = 0; key0 < end; key0 += TILE) {
    vec4 tile[4], values[LOADS];
    load_keys(values, v, key0);
    [[unroll]] for (uint r = 0; r < 4; ++r) tile[r] = vec4(0.0);
    add_scores(tile, q, query0, k, key0);
    [[unroll]] for (uint r = 0; r < 4; ++r) {
      [[unroll]] for (uint c = 0; c < 4; ++c) {
        tile[r][c] = masked(tile[r][c], p.scale, p.mask, mask_base, mask_strides, query0 + ty() * 4 + r, key0 + tx() * 4 + c, p.queries, p.keys);
      }
    }
    keep_tile(tile);
    barrier();
    vec4 mine[4];
    float local = minus_infinity();
    [[unroll]] for (uint i = 0; i < 4; ++i) {
      mine[i] = weights[row * PITCH + quarter + i * 4];
      local = max(local, max(max(mine[i].x, mine[i].y), max(mine[i].z, mine[i].w)));
    }
    maxima[id] = local;
    barrier();
    float onto = max(max(maxima[row * 4], maxima[row * 4 + 1]), max(maxima[row * 4 + 2], maxima[row * 4 + 3]));
    onto = max(onto, largest);
    float factor = largest == onto ? 1.0 : exp(largest - onto), part = 0.0;
    largest = onto;
    [[unroll]] for (uint i = 0; i < 4; ++i) {
      // A NaN among the scores stays one here, whatever max() made of it.
      [[unroll]] for (uint c = 0; c < 4; ++c) {
        mine[i][c] = mine[i][c] == minus_infinity() ? 0.0 : exp(mine[i][c] - onto);
        part += mine[i][c];
      }
      weights[row * PITCH + quarter + i * 4] = mine[i];
    }
    sums_of[id] = part;
    if (quarter == 0) factors[row] = factor;
    barrier();
    sum = sum * factor + ((sums_of[row * 4] + sums_of[row * 4 + 1]) + (sums_of[row * 4 + 2] + sums_of[row * 4 + 3]));
    [[unroll]] for (uint n = 0; n < PARTS; ++n) {
      [[unroll]] for (uint r = 0; r < 4; ++r) result[n][r] *= factors[ty() * 4 + r];
    }
    add_weighted(result, values, v, key0);
  }

  barrier();
  uint heads = gl_NumWorkGroups.y, row_base = (b * heads + head) * p.queries;
  if (quarter == 0) {
    factors[row] = sum == 0.0 ? 0.0 : 1.0 / sum;  // nothing to attend to gives 0
    if (query0 + row < p.queries) BufferF32(p.logsumexp).v[row_base + query0 + row] = sum == 0.0 ? minus_infinity() : largest + log(sum);
  }
  barrier();
  [[unroll]] for (uint n = 0; n < PARTS; ++n) {
    [[unroll]] for (uint r = 0; r < 4; ++r) result[n][r] *= factors[ty() * 4 + r];
  }
  store_rows(head_rows(p.y, b, head, heads, p.queries, packed, heads), query0, result);
}
