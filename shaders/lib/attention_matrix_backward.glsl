// Gradients of attention on matrix units (see attention_coopmat.comp): DQ of a tile of queries, DKV of a tile of keys.
#include "attention_matrix.glsl"

layout(constant_id = 7) const uint MASK_BATCH = 0;  // strides of the mask
layout(constant_id = 8) const uint MASK_HEAD = 0;
layout(constant_id = 9) const uint MASK_QUERY = 0;
layout(constant_id = 10) const uint MASK_KEY = 0;
layout(constant_id = 11) const uint WINDOW = 0;  // as attention_limits.glsl tells
layout(constant_id = 12) const uint SOFTCAP = 0;
#include "attention_limits.glsl"

layout(push_constant, scalar) uniform Push {
  uvec2 q, k, v, mask, dy;
  uvec2 rows, logsumexp;  // per row: Σ y · dy, and logsumexp of the forward pass
  uvec2 gradient, dv;     // dq, or dk and dv, or the packed gradient
  uint q_strides[3], kv_strides[3], dy_strides[3];  // of batch, head and row
  uint queries, keys;
  uint shape;  // heads per group, head size << 16, gradients packed as [B, T, H + 2 G, D] << 30, causal << 31
  float scale;
} p;

uint mask_base;
float unit() { return !HAS_MASK && SOFTCAP == 0 ? p.scale * LOG2E : 1.0; }
uvec2 keys_of(uint query) { return keys_of_query(p.mask, gl_WorkGroupID.z, query, p.queries, p.keys); }
uvec2 queries_of(uint key) { return queries_of_key(p.mask, gl_WorkGroupID.z, key, p.queries); }

// A score; in units of log 2 if there is a mask or a soft cap; otherwise the caller multiplies it by `unit()`.
float score_from(float product, uint query, uint key) {
  if (key >= p.keys || (causal && key > query)) return minus_infinity();
  if (LIMITED && !within(keys_of(query), key)) return minus_infinity();
  if (!HAS_MASK) return SOFTCAP == 0 ? product : capped(product * p.scale) * LOG2E;
  if (query >= p.queries) return minus_infinity();
  float m = load_float(p.mask, mask_base + query * MASK_QUERY + key * MASK_KEY, MASK_DTYPE);
  if (MASK_DTYPE == BOOL) return m != 0.0 ? capped(product * p.scale) * LOG2E : minus_infinity();
  return capped(product * p.scale) * LOG2E + m * LOG2E;
}

// For query `query` of a head whose rows start at row_base: -logsumexp in units of log 2, so that a weight is 2^(score
// + this), and -Σ y · dy, the initial value of a weight's gradient. A query past the end, or one that attends to
// nothing, gets weight 0. In a row that contains NaN, one of the two is NaN, and the first is set to infinity.
vec2 statistics_of(uint row_base, uint query) {
  if (query >= p.queries) return vec2(minus_infinity(), 0.0);
  float logsumexp = BufferF32(p.logsumexp).v[row_base + query], sum = BufferF32(p.rows).v[row_base + query];
  if (!m_isfinite(sum) || !(logsumexp < -minus_infinity())) return vec2(-minus_infinity(), 0.0);
  return vec2(logsumexp == minus_infinity() ? logsumexp : -logsumexp * LOG2E, -sum);
}
bool is_broken(float norm) { return norm == -minus_infinity(); }

#ifdef DQ
shared float norms[TILE], deltas[TILE];
#else
shared float norms[COLUMNS], deltas[COLUMNS];
shared uint broken_from, broken;  // keys from the first to before the second: some query with NaN attends to them
#endif

#ifdef COOPMAT2
float seen(const in uint row, const in uint column, const in float product, const in uint row0, const in uint column0) {
#ifdef DQ
  return score_from(product, row0 + row, column0 + column);
#else
  return score_from(product, column0 + column, row0 + row);
#endif
}
void see(inout Sums score, uint row0, uint column0) { coopMatPerElementNV(score, score, seen, row0, column0); }
#else
const uint SUMS_PITCH = 5, OPERAND_PITCH = 3;
shared vec4 sums_of[SUBGROUPS * M * SUMS_PITCH];
shared uvec4 operands_of[SUBGROUPS * M * OPERAND_PITCH];

void see(inout Sums score, uint row0, uint column0) {
  uint base = gl_SubgroupID * M * SUMS_PITCH;
  synchronize();
  coopMatStore(score, sums_of, base, SUMS_PITCH, ROW_MAJOR);
  synchronize();
  for (uint i = gl_SubgroupInvocationID; i < M * 4; i += gl_SubgroupSize) {
    uint row = row0 + i / 4, column = column0 + i % 4 * 4, at = base + i / 4 * SUMS_PITCH + i % 4;
    vec4 s = sums_of[at];
    [[unroll]] for (uint e = 0; e < 4; ++e) {
#ifdef DQ
      s[e] = score_from(s[e], row, column + e);
#else
      s[e] = score_from(s[e], column + e, row);
#endif
    }
    sums_of[at] = s;
  }
  synchronize();
  coopMatLoad(score, sums_of, base, SUMS_PITCH, ROW_MAJOR);
}

Left operand(Sums x) {
  uint from = gl_SubgroupID * M * SUMS_PITCH, to = gl_SubgroupID * M * OPERAND_PITCH;
  synchronize();
  coopMatStore(x, sums_of, from, SUMS_PITCH, ROW_MAJOR);
  synchronize();
  for (uint i = gl_SubgroupInvocationID; i < M * 2; i += gl_SubgroupSize) {
    vec4 a = sums_of[from + i / 2 * SUMS_PITCH + i % 2 * 2], b = sums_of[from + i / 2 * SUMS_PITCH + i % 2 * 2 + 1];
    operands_of[to + i / 2 * OPERAND_PITCH + i % 2] =
        uvec4(operand_pair(a.xy), operand_pair(a.zw), operand_pair(b.xy), operand_pair(b.zw));
  }
  synchronize();
  Left y;
  coopMatLoad(y, operands_of, to, OPERAND_PITCH, ROW_MAJOR);
  return y;
}
#endif

#ifdef DQ
void main() {
  unpack(p.shape);
  uint first = (gl_NumWorkGroups.x - 1 - gl_WorkGroupID.x) * TILE, head = gl_WorkGroupID.y,
       heads = gl_NumWorkGroups.y, b = gl_WorkGroupID.z;
  uint kv_head = head / heads_per_group, query0 = first + gl_SubgroupID * SPAN;
  uint begin = 0, end = causal ? min(p.keys, first + TILE) : p.keys;
  uvec2 some, every;  // keys that a row, and that all rows of the subgroup attend to
  if (LIMITED) {
    uint newest = p.queries - 1;
    begin = subgroupBroadcastFirst(keys_of(first).x);
    end = subgroupBroadcastFirst(keys_of(min(first + TILE - 1, newest)).y);
    uvec2 oldest = keys_of(query0), last = keys_of(min(query0 + SPAN - 1, newest));
    some = subgroupBroadcastFirst(uvec2(oldest.x, last.y));
    every = subgroupBroadcastFirst(uvec2(last.x, oldest.y));
  }
  mask_base = b * MASK_BATCH + head * MASK_HEAD;
  Rows k = rows_of(p.k, p.kv_strides, b, kv_head, p.keys), v = rows_of(p.v, p.kv_strides, b, kv_head, p.keys);
  uvec4 next_k[LOADS], next_v[LOADS];
  load_tile(next_k, k, begin);
  load_tile(next_v, v, begin);
  for (uint i = gl_LocalInvocationID.x; i < TILE; i += THREADS) {
    vec2 row = statistics_of((b * heads + head) * p.queries, first + i);
    norms[i] = row.x;
    deltas[i] = row.y;
  }
  Left query[RESULTS], dresult[RESULTS];
  load_left(query, rows_of(p.q, p.q_strides, b, head, p.queries), first);
  load_left(dresult, rows_of(p.dy, p.dy_strides, b, head, p.queries), first);
  Sums dq[RESULTS], norm[ROWS];
  clear(dq);
  [[unroll]] for (uint r = 0; r < ROWS; ++r) coopMatLoad(norm[r], norms, gl_SubgroupID * SPAN + r * M, 0, COLUMN_MAJOR);

  float c = unit();
  barrier();
  keep_tile(next_k, 0);
  keep_tile(next_v, OPERAND);
  barrier();
  [[dont_unroll]] for (uint key0 = begin; key0 < end; key0 += COLUMNS) {
    bool more = key0 + COLUMNS < end;
    if (more) {
      load_tile(next_k, k, key0 + COLUMNS);
      load_tile(next_v, v, key0 + COLUMNS);
    }
    if (LIMITED ? key0 < some.y && key0 + COLUMNS > some.x : !causal || key0 < query0 + SPAN) {
    bool edge = HAS_MASK || SOFTCAP != 0 || key0 + COLUMNS > p.keys || (causal && key0 + COLUMNS > query0 + 1) ||
                (LIMITED && (key0 < every.x || key0 + COLUMNS > every.y));
    [[unroll]] for (uint n = 0; n < STEPS; ++n) {
      Sums score[ROWS], dweight[ROWS];
      [[unroll]] for (uint r = 0; r < ROWS; ++r) {
        score[r] = Sums(0.0);
        coopMatLoad(dweight[r], deltas, gl_SubgroupID * SPAN + r * M, 0, COLUMN_MAJOR);
      }
      [[unroll]] for (uint d = 0; d < BLOCKS; ++d) {
        Right key = across(0, n, d), value = across(OPERAND, n, d);
        [[unroll]] for (uint r = 0; r < ROWS; ++r) {
          score[r] = coopMatMulAdd(query[r * BLOCKS + d], key, score[r]);
          dweight[r] = coopMatMulAdd(dresult[r * BLOCKS + d], value, dweight[r]);
        }
      }
      Left dscore[ROWS];
      [[unroll]] for (uint r = 0; r < ROWS; ++r) {
        if (edge) see(score[r], query0 + r * M, key0 + n * 16);
        [[unroll]] for (int i = 0; i < score[r].length(); ++i) {
          dweight[r][i] *= exp2(fma(score[r][i], c, norm[r][i]));
          if (SOFTCAP != 0) dweight[r][i] *= cap_derivative(score[r][i] / LOG2E);
        }
        dscore[r] = operand(dweight[r]);
      }
      [[unroll]] for (uint d = 0; d < BLOCKS; ++d) {
        Right key = along(0, n, d);
        [[unroll]] for (uint r = 0; r < ROWS; ++r)
          dq[r * BLOCKS + d] = coopMatMulAdd(dscore[r], key, dq[r * BLOCKS + d]);
      }
    }

    }
    barrier();
    if (more) {
      keep_tile(next_k, 0);
      keep_tile(next_v, OPERAND);
    }
    barrier();
  }

  [[unroll]] for (uint r = 0; r < ROWS; ++r) {
    [[unroll]] for (int i = 0; i < norm[r].length(); ++i) {
      if (is_broken(norm[r][i])) {
        [[unroll]] for (uint d = 0; d < BLOCKS; ++d) dq[r * BLOCKS + d][i] = not_a_number();
      }
    }
  }
  barrier();
  store_rows(dq, p.scale, uvec2(0),
             head_rows(p.gradient, b, head, heads, p.queries, packed, heads + 2 * (heads / heads_per_group)), query0);
}
#else
void main() {
  unpack(p.shape);
  uint first = gl_WorkGroupID.x * TILE, kv_head = gl_WorkGroupID.y, groups = gl_NumWorkGroups.y, b = gl_WorkGroupID.z;
  uint heads = groups * heads_per_group, key0 = first + gl_SubgroupID * SPAN, id = gl_LocalInvocationID.x;
  Left key[RESULTS], value[RESULTS];
  load_left(key, rows_of(p.k, p.kv_strides, b, kv_head, p.keys), first);
  load_left(value, rows_of(p.v, p.kv_strides, b, kv_head, p.keys), first);
  Sums dk[RESULTS], dv[RESULTS];
  clear(dk);
  clear(dv);
  if (id == 0) {
    broken_from = LIMITED ? p.keys : 0;
    broken = 0;
  }

  float c = unit();
  uint start = causal ? first / COLUMNS * COLUMNS : 0, end = p.queries;
  uvec2 some, every;  // queries that attend to a key, and to all keys of the subgroup
  if (LIMITED) {
    uint newest = p.keys - 1;
    start = subgroupBroadcastFirst(queries_of(first).x);
    end = subgroupBroadcastFirst(queries_of(min(first + TILE - 1, newest)).y);
    uvec2 oldest = queries_of(key0), last = queries_of(min(key0 + SPAN - 1, newest));
    some = subgroupBroadcastFirst(uvec2(oldest.x, last.y));
    every = subgroupBroadcastFirst(uvec2(last.x, oldest.y));
  }
  [[dont_unroll]] for (uint h = 0; h < heads_per_group; ++h) {
    uint head = kv_head * heads_per_group + h, row_base = (b * heads + head) * p.queries;
    mask_base = b * MASK_BATCH + head * MASK_HEAD;
    Rows q = rows_of(p.q, p.q_strides, b, head, p.queries), dy = rows_of(p.dy, p.dy_strides, b, head, p.queries);
    uvec4 next_q[LOADS], next_dy[LOADS];
    load_tile(next_q, q, start);
    load_tile(next_dy, dy, start);
    vec2 next_row = statistics_of(row_base, start + min(id, COLUMNS));
    [[dont_unroll]] for (uint query0 = start; query0 < end; query0 += COLUMNS) {
      barrier();
      keep_tile(next_q, 0);
      keep_tile(next_dy, OPERAND);
      if (id < COLUMNS) {
        norms[id] = is_broken(next_row.x) ? minus_infinity() : next_row.x;
        deltas[id] = next_row.y;
        if (is_broken(next_row.x)) {
          uvec2 seen = LIMITED ? keys_of(query0 + id) : uvec2(0, causal ? query0 + id + 1 : p.keys);
          if (LIMITED) atomicMin(broken_from, seen.x);
          atomicMax(broken, seen.y);
        }
      }
      barrier();
      if (query0 + COLUMNS < end) {
        load_tile(next_q, q, query0 + COLUMNS);
        load_tile(next_dy, dy, query0 + COLUMNS);
        next_row = statistics_of(row_base, query0 + COLUMNS + min(id, COLUMNS));
      }
      if (LIMITED ? query0 >= some.y || query0 + COLUMNS <= some.x : causal && query0 + COLUMNS <= key0) continue;
      bool edge = HAS_MASK || SOFTCAP != 0 || (causal && query0 < key0 + SPAN) ||
                  (LIMITED && (query0 < every.x || query0 + COLUMNS > every.y));
      [[unroll]] for (uint n = 0; n < STEPS; ++n) {
        Sums score[ROWS], dweight[ROWS], norm;
        [[unroll]] for (uint r = 0; r < ROWS; ++r) {
          score[r] = Sums(0.0);
          coopMatLoad(dweight[r], deltas, n * 16, 0, ROW_MAJOR);
        }
        coopMatLoad(norm, norms, n * 16, 0, ROW_MAJOR);
        [[unroll]] for (uint d = 0; d < BLOCKS; ++d) {
          Right query = across(0, n, d), dresult = across(OPERAND, n, d);
          [[unroll]] for (uint r = 0; r < ROWS; ++r) {
            score[r] = coopMatMulAdd(key[r * BLOCKS + d], query, score[r]);
            dweight[r] = coopMatMulAdd(value[r * BLOCKS + d], dresult, dweight[r]);
          }
        }
        Left weight[ROWS], dscore[ROWS];
        [[unroll]] for (uint r = 0; r < ROWS; ++r) {
          if (edge) see(score[r], key0 + r * M, query0 + n * 16);
          [[unroll]] for (int i = 0; i < norm.length(); ++i) {
            if (SOFTCAP != 0) dweight[r][i] *= cap_derivative(score[r][i] / LOG2E);
            score[r][i] = exp2(fma(score[r][i], c, norm[i]));
            dweight[r][i] *= score[r][i];
          }
          weight[r] = operand(score[r]);
          dscore[r] = operand(dweight[r]);
        }
        [[unroll]] for (uint d = 0; d < BLOCKS; ++d) {
          Right query = along(0, n, d), dresult = along(OPERAND, n, d);
          [[unroll]] for (uint r = 0; r < ROWS; ++r) {
            dv[r * BLOCKS + d] = coopMatMulAdd(weight[r], dresult, dv[r * BLOCKS + d]);
            dk[r * BLOCKS + d] = coopMatMulAdd(dscore[r], query, dk[r * BLOCKS + d]);
          }
        }
      }
    }
  }

  barrier();
  uint width = heads + 2 * groups;
  uvec2 nan = uvec2(broken_from, broken);
  if (packed) {
    store_rows(dk, p.scale, nan, head_rows(p.gradient, b, heads + kv_head, groups, p.keys, true, width), key0);
    store_rows(dv, 1.0, nan, head_rows(p.gradient, b, heads + groups + kv_head, groups, p.keys, true, width), key0);
  } else {
    store_rows(dk, p.scale, nan, head_rows(p.gradient, b, kv_head, groups, p.keys, false, width), key0);
    store_rows(dv, 1.0, nan, head_rows(p.dv, b, kv_head, groups, p.keys, false, width), key0);
  }
}
#endif
