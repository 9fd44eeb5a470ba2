// Attention on matrix units, forward (see attention_coopmat.comp).
#include "attention_matrix.glsl"

layout(push_constant, scalar) uniform Push {
  uvec2 q, k, v, mask, y, logsumexp;
  uint q_strides[3], k_strides[3], v_strides[3];  // of batch, head and row
  uint mask_strides[4];
  uint queries, keys;
  uint shape;  // heads per group, head size << 16, result packed as [B, T, H, D] << 30, causal << 31
  float scale;
} p;

const uint SCORES = ROWS * STEPS;
// The initial maximum: lower than any score, but finite, so that differences stay finite.
const float NOTHING = -1e30;

uint mask_base;

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

#ifdef COOPMAT2
float larger(const in float a, const in float b) { return max(a, b); }
float added(const in float a, const in float b) { return a + b; }

Sums largest[ROWS], sums[ROWS];  // per row, repeated in every column; each column of `sums` has its own partial sum
void begin() {
  [[unroll]] for (uint r = 0; r < ROWS; ++r) {
    largest[r] = Sums(NOTHING);
    sums[r] = Sums(0.0);
  }
}

void multiply(Left query[RESULTS], out Sums scores[SCORES]) {
  [[unroll]] for (uint i = 0; i < SCORES; ++i) scores[i] = Sums(0.0);
  [[unroll]] for (uint n = 0; n < STEPS; ++n) {
    [[unroll]] for (uint d = 0; d < BLOCKS; ++d) {
      Right key = across(0, n, d);
      [[unroll]] for (uint r = 0; r < ROWS; ++r)
        scores[r * STEPS + n] = coopMatMulAdd(query[r * BLOCKS + d], key, scores[r * STEPS + n]);
    }
  }
}

void see(inout Sums scores[SCORES], uint query0, uint key0) {
  if (MASK_DTYPE == NO_MASK && key0 + COLUMNS <= p.keys && !(causal && key0 + COLUMNS > query0 + 1)) return;
  [[unroll]] for (uint r = 0; r < ROWS; ++r) {
    [[unroll]] for (uint n = 0; n < STEPS; ++n)
      coopMatPerElementNV(scores[r * STEPS + n], scores[r * STEPS + n], seen, query0 + r * M, key0 + n * 16);
  }
}

void add_values(Sums scores[SCORES], inout Sums result[RESULTS]) {
  float c = unit();
  Left weights[SCORES];
  [[unroll]] for (uint r = 0; r < ROWS; ++r) {
    Sums top = scores[r * STEPS], row;
    [[unroll]] for (uint n = 1; n < STEPS; ++n) {
      [[unroll]] for (int i = 0; i < top.length(); ++i) top[i] = max(top[i], scores[r * STEPS + n][i]);
    }
    coopMatReduceNV(row, top, gl_CooperativeMatrixReduceRowNV, larger);
    [[unroll]] for (int i = 0; i < row.length(); ++i) {
      float onto = max(row[i] * c, largest[r][i]), factor = exp2(largest[r][i] - onto);
      largest[r][i] = onto;
      sums[r][i] *= factor;
      [[unroll]] for (uint d = 0; d < BLOCKS; ++d) result[r * BLOCKS + d][i] *= factor;
    }
    [[unroll]] for (uint n = 0; n < STEPS; ++n) {
      Sums w;
      [[unroll]] for (int i = 0; i < w.length(); ++i) {
        w[i] = exp2(fma(scores[r * STEPS + n][i], c, -largest[r][i]));
        sums[r][i] += w[i];
      }
      weights[r * STEPS + n] = operand(w);
    }
  }
  [[unroll]] for (uint n = 0; n < STEPS; ++n) {
    [[unroll]] for (uint d = 0; d < BLOCKS; ++d) {
      Right value = along(OPERAND, n, d);
      [[unroll]] for (uint r = 0; r < ROWS; ++r)
        result[r * BLOCKS + d] = coopMatMulAdd(weights[r * STEPS + n], value, result[r * BLOCKS + d]);
    }
  }
}

void walk(Left query[RESULTS], Rows k, Rows v, uvec4 next_k[LOADS], uvec4 next_v[LOADS], uint query0, uint end,
          inout Sums result[RESULTS]) {
  barrier();
  keep_tile(next_k, 0);
  keep_tile(next_v, OPERAND);
  barrier();
  [[dont_unroll]] for (uint key0 = 0; key0 < end; key0 += COLUMNS) {
    bool more = key0 + COLUMNS < end;
    if (more) {
      load_tile(next_k, k, key0 + COLUMNS);
      load_tile(next_v, v, key0 + COLUMNS);
    }
    if (!causal || key0 < query0 + SPAN) {
      Sums scores[SCORES];
      multiply(query, scores);
      see(scores, query0, key0);
      add_values(scores, result);
    }
    barrier();
    if (more) {
      keep_tile(next_k, 0);
      keep_tile(next_v, OPERAND);
    }
    barrier();
  }
}

// Divides by the sums and writes logsumexp.
void finish(inout Sums result[RESULTS], uint query0, uint row_base) {
  uint base = gl_SubgroupID * OUT;
  [[unroll]] for (uint r = 0; r < ROWS; ++r) {
    Sums sum;
    coopMatReduceNV(sum, sums[r], gl_CooperativeMatrixReduceRowNV, added);
    [[unroll]] for (int i = 0; i < sum.length(); ++i) {
      float factor = sum[i] == 0.0 ? 0.0 : 1.0 / sum[i];  // a row without a key to attend to gives 0
      [[unroll]] for (uint d = 0; d < BLOCKS; ++d) result[r * BLOCKS + d][i] *= factor;
      sum[i] = sum[i] == 0.0 ? minus_infinity() : (largest[r][i] + log2(sum[i])) / LOG2E;
    }
    synchronize();
    coopMatStore(sum, pool, base, OUT_PITCH, ROW_MAJOR);
    synchronize();
    for (uint i = gl_SubgroupInvocationID; i < M; i += gl_SubgroupSize) {
      uint query = query0 + r * M + i;
      if (query < p.queries) BufferF32(p.logsumexp).v[row_base + query] = uintBitsToFloat(pool[base + i * OUT_PITCH].x);
    }
  }
}
#else
const uint SCORE_PITCH = COLUMNS / 4 + 1, SCORE = M * SCORE_PITCH;    // vec4s
const uint WEIGHT_PITCH = COLUMNS / 8 + 1, WEIGHT = M * WEIGHT_PITCH;  // uvec4s
shared vec4 scores_of[SUBGROUPS * SCORE];
shared uvec4 weights_of[SUBGROUPS * WEIGHT];
shared float largest[TILE], sums[TILE], factors[TILE];

void begin() {
  for (uint i = gl_SubgroupInvocationID; i < SPAN; i += gl_SubgroupSize) {
    largest[gl_SubgroupID * SPAN + i] = NOTHING;
    sums[gl_SubgroupID * SPAN + i] = 0.0;
  }
}

// Computes the weights of M rows of scores in shared memory, two threads per row.
void weigh_rows(uint first_row, uint query0, uint key0) {
  const uint HALF = COLUMNS / 2;
  float c = unit();
  [[dont_unroll]] for (uint item = gl_SubgroupInvocationID; item < 2 * M; item += gl_SubgroupSize) {
    uint row = item / 2, column = item % 2 * HALF, from = gl_SubgroupID * SCORE + row * SCORE_PITCH + column / 4;
    vec4 s[HALF / 4];
    float top = NOTHING;
    bool whole = MASK_DTYPE == NO_MASK && key0 + COLUMNS <= p.keys && !(causal && key0 + COLUMNS > query0 + row + 1);
    [[unroll]] for (uint i = 0; i < HALF / 4; ++i) {
      s[i] = scores_of[from + i];
      if (!whole) {
        [[unroll]] for (uint e = 0; e < 4; ++e) s[i][e] = seen(row, column + i * 4 + e, s[i][e], query0, key0);
      }
      s[i] *= c;
      top = max(top, max(max(s[i].x, s[i].y), max(s[i].z, s[i].w)));
    }
    top = max(top, subgroupShuffleXor(top, 1));
    float before = largest[first_row + row], onto = max(before, top), part = 0.0;
    [[unroll]] for (uint i = 0; i < HALF / 4; ++i) {
      s[i] = exp2(s[i] - onto);
      part += (s[i].x + s[i].y) + (s[i].z + s[i].w);
    }
    [[unroll]] for (uint i = 0; i < HALF / 8; ++i)
      weights_of[gl_SubgroupID * WEIGHT + row * WEIGHT_PITCH + column / 8 + i] =
          uvec4(operand_pair(s[2 * i].xy), operand_pair(s[2 * i].zw),
                operand_pair(s[2 * i + 1].xy), operand_pair(s[2 * i + 1].zw));
    part += subgroupShuffleXor(part, 1);
    if (item % 2 == 0) {
      float factor = exp2(before - onto);
      largest[first_row + row] = onto;
      sums[first_row + row] = sums[first_row + row] * factor + part;
      factors[first_row + row] = factor;
    }
  }
}

// Multiplies each row by its factor: a matrix with the factors in every column has them at the positions of the
// result's elements.
void scale_rows(inout Sums result[RESULTS], uint r) {
  Sums factor;
  coopMatLoad(factor, factors, gl_SubgroupID * SPAN + r * M, 0, COLUMN_MAJOR);
  [[unroll]] for (uint d = 0; d < BLOCKS; ++d) {
    [[unroll]] for (int i = 0; i < factor.length(); ++i) result[r * BLOCKS + d][i] *= factor[i];
  }
}

void add_values(Left query[RESULTS], uint query0, uint key0, inout Sums result[RESULTS]) {
  Left weights[SCORES];
  [[unroll]] for (uint r = 0; r < ROWS; ++r) {
    [[unroll]] for (uint n = 0; n < STEPS; ++n) {
      Sums score = Sums(0.0);
      [[unroll]] for (uint d = 0; d < BLOCKS; ++d) score = coopMatMulAdd(query[r * BLOCKS + d], across(0, n, d), score);
      coopMatStore(score, scores_of, gl_SubgroupID * SCORE + n * 4, SCORE_PITCH, ROW_MAJOR);
    }
    synchronize();
    weigh_rows(gl_SubgroupID * SPAN + r * M, query0 + r * M, key0);
    synchronize();
    scale_rows(result, r);
    [[unroll]] for (uint n = 0; n < STEPS; ++n)
      coopMatLoad(weights[r * STEPS + n], weights_of, gl_SubgroupID * WEIGHT + n * 2, WEIGHT_PITCH, ROW_MAJOR);
    synchronize();
  }
  [[unroll]] for (uint n = 0; n < STEPS; ++n) {
    [[unroll]] for (uint d = 0; d < BLOCKS; ++d) {
      Right value = along(OPERAND, n, d);
      [[unroll]] for (uint r = 0; r < ROWS; ++r)
        result[r * BLOCKS + d] = coopMatMulAdd(weights[r * STEPS + n], value, result[r * BLOCKS + d]);
    }
  }
}

void walk(Left query[RESULTS], Rows k, Rows v, uvec4 next_k[LOADS], uvec4 next_v[LOADS], uint query0, uint end,
          inout Sums result[RESULTS]) {
  [[dont_unroll]] for (uint key0 = 0; key0 < end; key0 += COLUMNS) {
    barrier();
    keep_tile(next_k, 0);
    keep_tile(next_v, OPERAND);
    barrier();
    if (key0 + COLUMNS < end) {
      load_tile(next_k, k, key0 + COLUMNS);
      load_tile(next_v, v, key0 + COLUMNS);
    }
    if (!causal || key0 < query0 + SPAN) add_values(query, query0, key0, result);
  }
}

void finish(inout Sums result[RESULTS], uint query0, uint row_base) {
  for (uint i = gl_SubgroupInvocationID; i < SPAN; i += gl_SubgroupSize) {
    uint at = gl_SubgroupID * SPAN + i;
    float sum = sums[at];
    if (query0 + i < p.queries)
      BufferF32(p.logsumexp).v[row_base + query0 + i] =
          sum == 0.0 ? minus_infinity() : (largest[at] + log2(sum)) / LOG2E;
    factors[at] = sum == 0.0 ? 0.0 : 1.0 / sum;  // a row without a key to attend to gives 0
  }
  synchronize();
  [[unroll]] for (uint r = 0; r < ROWS; ++r) scale_rows(result, r);
}
#endif

void main() {
  unpack(p.shape);
  uint first = (gl_NumWorkGroups.x - 1 - gl_WorkGroupID.x) * TILE, head = gl_WorkGroupID.y,
       heads = gl_NumWorkGroups.y, b = gl_WorkGroupID.z;
  uint kv_head = head / heads_per_group, query0 = first + gl_SubgroupID * SPAN;
  mask_base = b * p.mask_strides[0] + head * p.mask_strides[1];
  Rows k = rows_of(p.k, p.k_strides, b, kv_head, p.keys), v = rows_of(p.v, p.v_strides, b, kv_head, p.keys);
  uvec4 next_k[LOADS], next_v[LOADS];
  load_tile(next_k, k, 0);
  load_tile(next_v, v, 0);
  Left query[RESULTS];
  load_left(query, rows_of(p.q, p.q_strides, b, head, p.queries), first);
  Sums result[RESULTS];
  clear(result);
  begin();

  walk(query, k, v, next_k, next_v, query0, causal ? min(p.keys, first + TILE) : p.keys, result);

  barrier();
  finish(result, query0, (b * heads + head) * p.queries);
  store_rows(result, 1.0, 0, head_rows(p.y, b, head, heads, p.queries, packed, heads), query0);
}
