#version 460
#extension GL_GOOGLE_include_directive : require
// A slice of one dimension whose start is read from device memory. dynamic_slice: y[o, j, i] = x[o, start + j, i]. With
// UPDATE: y = x except y[o, start + j, i] = update[o, j, i]. Bytes-bound: each element is read and written once.
// Typical slices are a few thousand token ids, where the dispatch itself is the cost; a workgroup of 256 copies 256
// units, so that as many compute units as possible take part. The start is clamped so that the slice stays within x.
//
// variant: dynamic_slice
// variant: dynamic_update_slice UPDATE

#include "units.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint UNIT = 4;       // bytes copied at once
layout(constant_id = 1) const uint START_I64 = 0;  // 1: the start is an i64, 0: an i32

layout(push_constant, scalar) uniform Push {
  uvec2 y, x, update;
  uvec2 start;
  uint n;                     // units of y
  uint count, inner;          // elements of the slice; units after the dimension
  uint last;                  // the largest start
  uint outer_stride, inner_stride, stride;  // of x, in units
} p;

uint start() {
  ivec2 words = ivec2(BufferI32(p.start).v[0], 0);
  words.y = START_I64 != 0 ? BufferI32(p.start).v[1] : words.x >> 31;
  if (words.y < 0) return 0;
  return words.y > 0 ? p.last : min(uint(words.x), p.last);
}

void main() {
  uint k = (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * 256 + gl_LocalInvocationID.x;
  if (k >= p.n) return;
  uint i = k % p.inner, first = start();
#ifdef UPDATE
  uint size = p.last + p.count, j = k / p.inner % size, o = k / p.inner / size;
  if (j - first < p.count) copy_unit(p.y, k, p.update, (o * p.count + j - first) * p.inner + i, UNIT);
  else copy_unit(p.y, k, p.x, o * p.outer_stride + i * p.inner_stride + j * p.stride, UNIT);
#else
  uint j = k / p.inner % p.count, o = k / p.inner / p.count;
  copy_unit(p.y, k, p.x, o * p.outer_stride + i * p.inner_stride + (first + j) * p.stride, UNIT);
#endif
}
