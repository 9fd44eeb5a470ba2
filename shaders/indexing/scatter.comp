#version 460
#extension GL_GOOGLE_include_directive : require
// scatter_add: y = x, with source[..., j, ...] added at index[..., j, ...] along one dimension. A thread owns an
// element of y, scans its line of the index, and adds the matching elements in order: no atomics, one rounding, no
// preparatory pass. The work is (elements of y) · (length of the index line), which suits training: one class per row,
// or as many as there are. Neighbouring threads read the same or neighbouring indices. One thread per line would need n
// dependent steps of read, add and write.
//
// variant: scatter_add_float T=float T_FLOAT
// variant: scatter_add_int T=int T_INT
// variant: scatter_add_i64 T=int64_t T_I64
// variant: scatter_add_pairs T=uvec2 T_PAIR

#include "index.glsl"
#include "arithmetic.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint DTYPE = 1;
layout(constant_id = 1) const uint INDEX_DTYPE = 4;
layout(constant_id = 2) const uint RANK = 1;
layout(constant_id = 3) const uint DIM = 0;

layout(push_constant, scalar) uniform Push {
  uvec2 y, x, index, source, index_errors;
  uint n;
  uint line;         // distance between neighbours along DIM in index and source
  uint sizes[8];     // of y
  uint extents[8];   // of index and source, at most as large outside DIM
} p;

void main() {
  uint i = (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * 256 + gl_LocalInvocationID.x;
  if (i >= p.n) return;
  uint rest = i, own = 0, start = 0, stride = 1;
  bool covered = true;
  for (int d = int(RANK) - 1; d >= 0; --d) {
    uint at = rest % p.sizes[d];
    rest /= p.sizes[d];
    if (d == int(DIM)) {
      own = at;
    } else {
      covered = covered && at < p.extents[d];
      start += at * stride;
    }
    stride *= p.extents[d];
  }
  T sum = load_value(p.x, i, DTYPE);
  if (covered) {
    for (uint j = 0; j < p.extents[DIM]; ++j) {
      uint at = start + j * p.line;
      if (load_index(p.index, at, INDEX_DTYPE, p.sizes[DIM], p.index_errors) == own) {
        sum = plus(sum, load_value(p.source, at, DTYPE));
      }
    }
  }
  store_value(p.y, i, DTYPE, sum);
}
