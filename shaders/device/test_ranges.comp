// variant: test_ranges
#version 460
#extension GL_GOOGLE_include_directive : require

// dst[i] = src[i] * factor + addend. The recorder's test runs it on overlapping ranges, in wrapping arithmetic, so that
// a wrong order produces wrong bits. A thread takes every (workgroup count x size)-th element.
#include "buffers.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint kShared = 1;  // u32s of shared memory to request, to reach the limit

ETNA_BUFFER(Words, uint);
layout(push_constant, scalar) uniform Push {
  Words source;
  Words target;
  uint count, factor, addend;
} p;

shared uint padding[kShared];

void main() {
  padding[gl_LocalInvocationIndex % kShared] = p.addend;
  uint stride = gl_NumWorkGroups.x * gl_WorkGroupSize.x;
  for (uint i = gl_GlobalInvocationID.x; i < p.count; i += stride) {
    p.target.v[i] = p.source.v[i] * p.factor + p.addend;
  }
}
