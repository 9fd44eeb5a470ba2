#version 460
#extension GL_GOOGLE_include_directive : require
// Columns of a matrix: y[r, j] = x[r, start + j]. Bytes-bound, each element being read and written once, but what it is for is a few
// thousand token ids: there the dispatch itself is what it costs, and a workgroup of 256 copies 256 elements, so that as many
// processors as can take part. The start changes from step to step of a recorded one; it is then read from the step's state, and any
// alignment of it must do, so elements are not joined to wider units.
//
// variant: window

#include "units.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint UNIT = 4;

layout(push_constant, scalar) uniform Push {
  uvec2 y, x;
  uvec2 state;       // where the start is, in a step that is replayed; 0: below
  uint start;
  uint n;            // elements of y
  uint width;        // columns of y
  uint row, column;  // strides of x
} p;

void main() {
  uint i = (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * 256 + gl_LocalInvocationID.x;
  if (i >= p.n) return;
  uint start = (p.state.x | p.state.y) != 0 ? uint(BufferI32(p.state).v[0]) : p.start;
  copy_unit(p.y, i, p.x, i / p.width * p.row + (start + i % p.width) * p.column, UNIT);
}
