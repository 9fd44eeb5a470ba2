#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
// Adds the partial sums of a split-K gemm in a fixed order and applies the epilogue. Bytes-bound. Y_WIDTH results per
// thread.
//
// variant: gemm_reduce

#include "epilogue.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint Y_WIDTH = 1;
layout(constant_id = 1) const uint EPILOGUE = 0;
layout(constant_id = 2) const uint Y_DTYPE = 1;
layout(constant_id = 3) const uint BIAS_DTYPE = 1;
layout(constant_id = 4) const uint AUX_DTYPE = 1;
layout(constant_id = 5) const uint RESIDUAL_DTYPE = 1;

layout(push_constant, scalar) uniform Push {
  uvec2 partial;
  EPILOGUE_PUSH
  uint count, n, splits;
} p;

#include "epilogue_row.glsl"
#include "splits.glsl"

void main() {
  uint i = ((gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * 256 + gl_LocalInvocationID.x) * Y_WIDTH;
  if (i >= p.count) return;
  apply_epilogue_to_some(sum_of_splits(i), i / p.n, i % p.n, Y_WIDTH);
}
