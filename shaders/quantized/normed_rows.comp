#version 460
#extension GL_GOOGLE_include_directive : require
// RMS norm of f32 rows with a result in f16 or bf16, for a gemm with many rows. Bound by latency. A workgroup owns a
// row.
//
// variant: normed_rows

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint DTYPE = 1;  // of the results
layout(constant_id = 1) const uint NORM_DTYPE = 0;
layout(constant_id = 2) const uint WIDTH = 1;

#include "normed_row.glsl"

layout(push_constant, scalar) uniform Push {
  uvec2 x, norm, y, factor;
  uint rows, k;
  float eps;
} p;

void main() {
  uint row = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
  if (row >= p.rows) return;
  write_normed_row(NormedRow(p.x, p.norm, p.y, p.factor, row, row * p.k, p.k, p.eps), WIDTH);
}
