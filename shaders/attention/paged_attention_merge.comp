#version 460
#extension GL_GOOGLE_include_directive : require
// Combines the partial results of paged_attention for long sequences. A workgroup owns a head of a query; chunks that
// the query does not attend to have written nothing and are not read.
//
// variant: paged_attention_merge

#include "dtype.glsl"
#include "math.glsl"

layout(local_size_x = 128) in;
layout(constant_id = 0) const uint DTYPE = 1;

layout(push_constant, scalar) uniform Push {
  uvec2 partial, positions, y;
  uint steps, groups, heads, chunks, chunk, size, width, window;  // heads: heads of queries per head of keys
} p;

void main() {
  uint row = gl_WorkGroupID.x / (p.groups * p.heads), h = gl_WorkGroupID.x % p.heads;
  uint group = gl_WorkGroupID.x / p.heads % p.groups;
  int position = BufferI32(p.positions).v[row / p.steps] + int(row % p.steps);
  uint end = position < 0 ? 0 : min(uint(position) + 1, p.width);
  uint begin = p.window > 0 && end > 0 && uint(position) + 1 > p.window ? uint(position) + 1 - p.window : 0;
  uint first = begin / p.chunk, last = (end + p.chunk - 1) / p.chunk;
  uint head = (row * p.groups + group) * p.heads, stride = p.size + 2;
  float most = uintBitsToFloat(0xff800000u), total = 0.0;
  for (uint c = first; c < last; ++c)
    most = m_max(most, BufferF32(p.partial).v[(head * p.chunks + c * p.heads + h) * stride + p.size]);
  bool none = most == uintBitsToFloat(0xff800000u);
  for (uint c = first; c < last && !none; ++c) {
    uint at = (head * p.chunks + c * p.heads + h) * stride + p.size;
    total += exp(BufferF32(p.partial).v[at] - most) * BufferF32(p.partial).v[at + 1];
  }
  for (uint i = gl_LocalInvocationID.x; i < p.size; i += 128) {
    float y = 0.0;
    for (uint c = first; c < last && !none; ++c) {
      uint at = (head * p.chunks + c * p.heads + h) * stride;
      y += exp(BufferF32(p.partial).v[at + p.size] - most) * BufferF32(p.partial).v[at + i];
    }
    store_float(p.y, (head + h) * p.size + i, DTYPE, none ? 0.0 : y / total);
  }
}
