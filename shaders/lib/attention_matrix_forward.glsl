// Attention on matrix units, forward (see attention_coopmat.comp).
#include "attention_matrix.glsl"

#ifdef PAGED
#include "attention_matrix_paged.glsl"
#else
#include "attention_matrix_dense.glsl"
#endif

const uint SCORES = ROWS * STEPS;
// The initial maximum: lower than any score, but finite, so that differences stay finite.
const float NOTHING = -1e30;

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
  if (all_seen(query0, query0 + SPAN - 1, key0)) return;
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

void walk(Left query[RESULTS], uvec4 next_k[LOADS], uvec4 next_v[LOADS], uint query0, inout Sums result[RESULTS]) {
  barrier();
  keep_tile(next_k, 0);
  keep_tile(next_v, OPERAND);
  barrier();
  [[dont_unroll]] for (uint key0 = first_key; key0 < end_key; key0 += COLUMNS) {
    bool more = key0 + COLUMNS < end_key, attends = any_seen(query0, key0);
    if (more) load_tiles(next_k, next_v, key0 + COLUMNS);
    if (attends) {
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
void finish(inout Sums result[RESULTS], uint query0) {
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
    for (uint i = gl_SubgroupInvocationID; i < M; i += gl_SubgroupSize)
      write_logsumexp(query0 + r * M + i, uintBitsToFloat(pool[base + i * OUT_PITCH].x));
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
    bool whole = all_seen(query0 + row, query0 + row, key0);
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

void walk(Left query[RESULTS], uvec4 next_k[LOADS], uvec4 next_v[LOADS], uint query0, inout Sums result[RESULTS]) {
  [[dont_unroll]] for (uint key0 = first_key; key0 < end_key; key0 += COLUMNS) {
    bool attends = any_seen(query0, key0);
    barrier();
    keep_tile(next_k, 0);
    keep_tile(next_v, OPERAND);
    barrier();
    if (key0 + COLUMNS < end_key) load_tiles(next_k, next_v, key0 + COLUMNS);
    if (attends) add_values(query, query0, key0, result);
  }
}

void finish(inout Sums result[RESULTS], uint query0) {
  for (uint i = gl_SubgroupInvocationID; i < SPAN; i += gl_SubgroupSize) {
    uint at = gl_SubgroupID * SPAN + i;
    float sum = sums[at];
    write_logsumexp(query0 + i, sum == 0.0 ? minus_infinity() : (largest[at] + log2(sum)) / LOG2E);
    factors[at] = sum == 0.0 ? 0.0 : 1.0 / sum;  // a row without a key to attend to gives 0
  }
  synchronize();
  [[unroll]] for (uint r = 0; r < ROWS; ++r) scale_rows(result, r);
}
#endif

void main() {
  unpack(p.shape);
  uint first = first_row(), query0 = first + gl_SubgroupID * SPAN;
  if (!find_keys(first)) return;
  uvec4 next_k[LOADS], next_v[LOADS];
  load_tiles(next_k, next_v, first_key);
  Left query[RESULTS];
  load_left(query, query_rows(), first);
  Sums result[RESULTS];
  clear(result);
  begin();

  walk(query, next_k, next_v, query0, result);

  barrier();
  finish(result, query0);
  write_result(result, query0);
}
