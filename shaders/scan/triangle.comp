#version 460
#extension GL_GOOGLE_include_directive : require
// tril and triu: a copy with one side of a diagonal zeroed. Bytes-bound. Elements are moved as raw bytes, so one kernel
// serves every dtype.
//
// variant: triangle

#include "dtype.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint SIZE = 4;  // bytes per element
layout(constant_id = 1) const uint UPPER = 0;

layout(push_constant, scalar) uniform Push {
  uvec2 x, y;
  uint n, height, width;
  uvec3 x_strides;  // matrix, row, column
  int diagonal;
} p;

void main() {
  uint group = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
  for (uint k = 0; k < 4; ++k) {
    uint at = group * 1024 + k * 256 + gl_LocalInvocationID.x;
    if (at >= p.n) return;
    uint column = at % p.width, row = at / p.width % p.height, matrix = at / (p.width * p.height);
    int beyond = int(column) - int(row) - p.diagonal;
    bool kept = UPPER != 0 ? beyond >= 0 : beyond <= 0;
    uint from = matrix * p.x_strides.x + row * p.x_strides.y + column * p.x_strides.z;
    if (SIZE == 1) BufferU8(p.y).v[at] = kept ? BufferU8(p.x).v[from] : uint8_t(0);
    if (SIZE == 2) BufferU16(p.y).v[at] = kept ? BufferU16(p.x).v[from] : uint16_t(0);
    if (SIZE == 4) BufferI32(p.y).v[at] = kept ? BufferI32(p.x).v[from] : 0;
    if (SIZE == 8) BufferWords(p.y).v[at] = kept ? BufferWords(p.x).v[from] : uvec2(0);
  }
}
