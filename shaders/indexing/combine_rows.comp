#version 460
#extension GL_GOOGLE_include_directive : require
// Combines rows at places of a table: sums, products, maxima or minima, in the order of the rows and without atomics.
// The places are sorted, so that rows of one place form a run. Bound by random reads of the source.
//
// A thread takes one column of 32 positions. Runs that lie within are written to the table. A run that continues from
// the previous segment, or into the next, leaves a partial result. The kernel runs again over the partial results, two
// per segment, until one segment is left. So a place that receives all rows does not become a chain of a million steps.
// A segment without a partial result stores the key NONE, or the run's own key with a neutral value.
//
// variant: combine_rows_float T=float T_FLOAT
// variant: combine_rows_int T=int T_INT
// variant: combine_rows_i64 T=int64_t T_I64
// variant: combine_rows_pairs T=uvec2 T_PAIR

#include "dtype.glsl"
#include "arithmetic.glsl"
#include "math.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint DTYPE = 1;    // of the table
layout(constant_id = 1) const uint SOURCE = 1;   // dtype of the source
layout(constant_id = 2) const uint PARTIAL = 1;  // dtype that holds a T
layout(constant_id = 3) const uint MODE = 1;     // 1 add, 2 multiply, 3 largest, 4 smallest

const uint SEGMENT = 32, NONE = 0xffffffffu;

layout(push_constant, scalar) uniform Push {
  uvec2 y, source;
  uvec2 keys, order;             // order: null for partial results
  uvec2 next_keys, next_source;  // null if there is one segment
  uint count, width;
} p;

T identity() {
  if (MODE == 1) return ZERO;
  if (MODE == 2) return ONE;
  if (MODE == 3) return LOWEST;
  return HIGHEST;
}

T combined(T a, T b) {
  if (MODE == 1) return plus(a, b);
  if (MODE == 2) return times(a, b);
#if defined(T_FLOAT)
  if (m_isnan(a)) return a;
  if (m_isnan(b)) return b;
#endif
  return (MODE == 3) == less(a, b) ? b : a;
}

uint key_at(uint i) { return uint(BufferI32(p.keys).v[i]); }
T value_at(uint i, uint column) {
  uint row = p.order == uvec2(0u) ? i : uint(BufferI32(p.order).v[i]);
  return load_value(p.source, row * p.width + column, SOURCE);
}
void give(uint key, uint column, T value) {
  if (key == NONE) return;
  uint at = key * p.width + column;
  store_value(p.y, at, DTYPE, combined(load_value(p.y, at, DTYPE), value));
}

void main() {
  uint i = (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * 256 + gl_LocalInvocationID.x;
  uint column = i % p.width, segment = i / p.width, start = segment * SEGMENT, end = min(start + SEGMENT, p.count);
  if (start >= p.count) return;
  uint key = key_at(start), in_key = NONE, out_key = NONE;
  T sum = value_at(start, column), in_value = identity(), out_value = identity();
  bool comes_in = start > 0 && key_at(start - 1) == key;
  for (uint at = start + 1; at <= end; ++at) {
    uint other = at < p.count ? key_at(at) : NONE;
    bool same = at < p.count && other == key;
    if (same && at < end) {
      sum = combined(sum, value_at(at, column));
      continue;
    }
    bool goes_on = same;
    if (comes_in) {
      in_key = key;
      in_value = sum;
      if (goes_on) out_key = key;
    } else if (goes_on) {
      out_key = key;
      out_value = sum;
    } else {
      give(key, column, sum);
    }
    comes_in = false;
    if (at < end) {
      key = other;
      sum = value_at(at, column);
    }
  }
  if (p.next_keys == uvec2(0u)) return;
  if (column == 0) {
    BufferI32(p.next_keys).v[2 * segment] = int(in_key);
    BufferI32(p.next_keys).v[2 * segment + 1] = int(out_key);
  }
  store_value(p.next_source, 2 * segment * p.width + column, PARTIAL, in_value);
  store_value(p.next_source, (2 * segment + 1) * p.width + column, PARTIAL, out_value);
}
