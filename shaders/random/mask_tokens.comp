#version 460
#extension GL_GOOGLE_include_directive : require
// Logits with minus infinity where a mask of bits does not allow a token. Bytes-bound: one read and one write of each
// logit; a word of a mask serves 32 of them.
//
// variant: mask_tokens

#include "dtype.glsl"
#include "index.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint DTYPE = 1;

layout(push_constant, scalar) uniform Push {
  uvec2 logits, masks, rows, y, index_errors;
  uint n, size, count;
} p;

void main() {
  uint group = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x, words = (p.size + 31) / 32;
  for (uint k = 0; k < 4; ++k) {
    uint at = group * 1024 + k * 256 + gl_LocalInvocationID.x;
    if (at >= p.n) return;
    uint row = at / p.size, token = at % p.size;
    bool allowed = true;
    if (BufferI32(p.rows).v[row] >= 0) {
      uint mask = load_index(p.rows, row, I32, p.count, p.index_errors);
      allowed = p.count > 0 && (uint(BufferI32(p.masks).v[mask * words + token / 32]) >> (token % 32) & 1u) != 0u;
    }
    if (DTYPE == F32) BufferF32(p.y).v[at] = allowed ? BufferF32(p.logits).v[at] : uintBitsToFloat(0xff800000u);
    if (DTYPE == F16) BufferU16(p.y).v[at] = allowed ? BufferU16(p.logits).v[at] : uint16_t(0xfc00u);
    if (DTYPE == BF16) BufferU16(p.y).v[at] = allowed ? BufferU16(p.logits).v[at] : uint16_t(0xff80u);
  }
}
