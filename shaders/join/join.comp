#version 460
#extension GL_GOOGLE_include_directive : require
// cat: concatenates up to eight tensors in one dispatch. Bytes-bound: each byte is read once and written once, in units
// of up to 16 bytes, whatever the dtype. One dispatch per tensor would be simpler. But tensors that interleave in the
// result have overlapping address ranges, so each dispatch would wait for the previous one, and a barrier costs more
// than the copy.
//
// The result is a matrix of `outer` rows; each row is the tensors' rows side by side. A workgroup of 256 covers 1024
// units, 256 apart, so that neighbouring threads access neighbours.
//
// variant: cat

#include "units.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint UNIT = 4;
layout(constant_id = 1) const uint TENSORS = 1;

layout(push_constant, scalar) uniform Push {
  uvec2 y;  // starts at this dispatch's first column
  uvec2 tensors[8];
  uint ends[8];  // the end of each tensor's columns, relative to this dispatch's first
  uint n;        // total units of these tensors
  uint stride;   // units per row of the result
} p;

void main() {
  uint group = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x, width = p.ends[TENSORS - 1];
  for (uint k = 0; k < 4; ++k) {
    uint i = group * 1024 + k * 256 + gl_LocalInvocationID.x;
    if (i >= p.n) return;
    uint row = i / width, column = i % width, start = 0, end = p.ends[0];
    uvec2 source = p.tensors[0];
    for (uint i = 1; i < TENSORS; ++i) {
      if (column >= p.ends[i - 1]) source = p.tensors[i], start = p.ends[i - 1], end = p.ends[i];
    }
    copy_unit(p.y, row * p.stride + column, source, row * (end - start) + column - start, UNIT);
  }
}
