#version 460
#extension GL_GOOGLE_include_directive : require
// Cumulative sums along one dimension. A row's threads take THREADS_PER_ROW elements at a time, scan them by doubling
// in shared memory, and carry the last sum on. Bytes-bound in principle; in practice the barriers of long rows limit
// it. Such rows are rare.
//
// variant: scan_float T=float T_FLOAT
// variant: scan_i64 T=int64_t T_I64
// variant: scan_pairs T=uvec2 T_PAIR

#include "dtype.glsl"
#include "arithmetic.glsl"
#include "row_threads.glsl"

layout(constant_id = 2) const uint REVERSE = 0;
layout(constant_id = 3) const uint X_DTYPE = 1;
layout(constant_id = 4) const uint Y_DTYPE = 1;

layout(push_constant, scalar) uniform Push {
  uvec2 x, y;
  uint rows, n, inner;
  uvec3 x_strides, y_strides;  // outer, inner, along
} p;

shared T sums[256];

void main() {
  uint row_thread = this_row_thread(), slot = this_slot(), t = gl_LocalInvocationID.x;
  uint row = workgroup_index() * SLOTS + slot;
  bool there = row < p.rows;
  uint outer = row / p.inner, inner = row % p.inner;
  uint base_x = outer * p.x_strides.x + inner * p.x_strides.y, base_y = outer * p.y_strides.x + inner * p.y_strides.y;
  T carried = ZERO;
  for (uint first = 0; first < p.n; first += THREADS_PER_ROW) {
    uint i = first + row_thread;
    bool inside = there && i < p.n;
    uint at = REVERSE != 0 ? p.n - 1 - i : i;
    T sum = inside ? load_value(p.x, base_x + at * p.x_strides.z, X_DTYPE) : ZERO;
    if (THREADS_PER_ROW > 1) {
      sums[t] = sum;
      barrier();
      for (uint apart = 1; apart < THREADS_PER_ROW; apart *= 2) {
        if (row_thread >= apart) sum = plus(sum, sums[thread_of(slot, row_thread - apart)]);
        barrier();
        sums[t] = sum;
        barrier();
      }
    }
    if (inside) store_value(p.y, base_y + at * p.y_strides.z, Y_DTYPE, plus(carried, sum));
    if (THREADS_PER_ROW > 1) {
      carried = plus(carried, sums[thread_of(slot, THREADS_PER_ROW - 1)]);
      barrier();
    } else {
      carried = plus(carried, sum);
    }
  }
}
