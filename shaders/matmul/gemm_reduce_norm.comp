#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
// gemm_reduce.comp for a gemm followed by an RMS norm: a workgroup adds up a row, applies the epilogue, and also writes
// the normalized row, in f16 or bf16, for the gemm that follows. Latency-bound. The result is f32.
//
// variant: gemm_reduce_norm

#include "epilogue.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint Y_WIDTH = 1;
layout(constant_id = 1) const uint EPILOGUE = 0;
layout(constant_id = 2) const uint Y_DTYPE = 1;
layout(constant_id = 3) const uint BIAS_DTYPE = 1;
layout(constant_id = 4) const uint AUX_DTYPE = 1;
layout(constant_id = 5) const uint RESIDUAL_DTYPE = 1;
layout(constant_id = 6) const uint DTYPE = 1;  // of the normalized row
layout(constant_id = 7) const uint NORM_DTYPE = 1;
layout(constant_id = 8) const uint NORM_WIDTH = 1;

#include "normed_row.glsl"

layout(push_constant, scalar) uniform Push {
  uvec2 partial;
  EPILOGUE_PUSH
  uvec2 norm, normed, factor;
  uint count, n, splits;
  float eps;
} p;

#include "epilogue_row.glsl"
#include "splits.glsl"

void main() {
  uint row = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
  if (row * p.n >= p.count) return;
  // write_normed_row() makes each thread read back only its own writes.
  for (uint e = gl_LocalInvocationID.x * 4; e < p.n; e += 1024) {
    [[unroll]] for (uint part = 0; part < 4; part += Y_WIDTH) {
      if (e + part >= p.n) break;
      uint i = row * p.n + e + part;
      apply_epilogue_to_some(sum_of_splits(i), row, e + part, Y_WIDTH);
    }
  }
  write_normed_row(NormedRow(p.y, p.norm, p.normed, p.factor, row, row * p.ldy, p.n, p.eps), NORM_WIDTH);
}
