#version 460
#extension GL_GOOGLE_include_directive : require
// Random numbers and dropout by Philox4x32-10. A thread makes one block of four words: numbers of one word come four a thread, those
// of two words (64 bits) two a thread. Bytes-bound for dropout: one read, one write, no mask; the backward pass makes the same block
// again. The same bits as tensor/ops/random.cpp, which the integers and `precise` see to.
//
// variant: random_fill
// variant: dropout DROPOUT

#include "dtype.glsl"
#include "philox.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint DTYPE = 1;
layout(constant_id = 1) const uint KIND = 0;

layout(push_constant, scalar) uniform Push {
  uvec2 y, x;
  uvec2 seed, offset;
  uvec2 stream;      // where seed and offset are, in a step that is replayed; 0: above
  uvec2 low, range;  // integers in [low, low + range)
  uint n;
  uint threshold;    // dropout keeps words of at least this
  float scale;       // of what is kept; 0 keeps nothing
} p;

const uint UNIFORM = 0, NORMAL = 1, INTEGER = 2;

#ifndef DROPOUT
// k · 2^-53 as the words of an f64, k < 2^53.
uvec2 fraction53(uvec2 k) {
  if ((k.x | k.y) == 0) return uvec2(0);
  int top = k.y != 0 ? 32 + findMSB(k.y) : findMSB(k.x);
  uint shift = uint(52 - top);
  uvec2 m = shift >= 32 ? uvec2(0, k.x << (shift - 32)) : shift == 0 ? k : uvec2(k.x << shift, (k.y << shift) | (k.x >> (32 - shift)));
  return uvec2(m.x, (m.y & 0xfffffu) | (uint(top - 53 + 1023) << 20));
}

// An f32, normal or zero, as the words of the same f64.
uvec2 widened(float value) {
  uint u = floatBitsToUint(value), magnitude = u & 0x7fffffffu;
  if (magnitude == 0) return uvec2(0, u);
  return uvec2(magnitude << 29, (u & 0x80000000u) | ((magnitude >> 3) + (896u << 20)));
}

// The upper 64 bits of a product of 64 bits by 64.
uvec2 multiply_high(uvec2 a, uvec2 b) {
  uint h0, l0, h1, l1, h2, l2, h3, l3, carry1, carry2, carry3;
  umulExtended(a.x, b.x, h0, l0);
  umulExtended(a.x, b.y, h1, l1);
  umulExtended(a.y, b.x, h2, l2);
  umulExtended(a.y, b.y, h3, l3);
  uint middle = uaddCarry(uaddCarry(h0, l1, carry1), l2, carry2);
  uint low = uaddCarry(h1, h2, carry3);
  uint carry4, carry5;
  low = uaddCarry(low, carry1 + carry2, carry4);
  low = uaddCarry(low, l3, carry5);
  return uvec2(low, h3 + carry3 + carry4 + carry5);
}

void put(uint i, uvec2 words) {
  if (i >= p.n) return;
  if (KIND == INTEGER) {
    uvec2 value = multiply_high(words, p.range);
    uint carry;
    value.x = uaddCarry(value.x, p.low.x, carry);
    value.y += p.low.y + carry;
    if (DTYPE == I64) BufferWords(p.y).v[i] = value;
    else store_int(p.y, i, DTYPE, int(value.x));
  } else if (KIND == NORMAL) {
    float z = standard_normal(words.x);
    if (DTYPE == F64) BufferWords(p.y).v[i] = widened(z);
    else store_float(p.y, i, DTYPE, z);
  } else if (DTYPE == F64) {
    BufferWords(p.y).v[i] = fraction53(uvec2((words.x >> 11) | (words.y << 21), words.y >> 11));
  } else {
    // As many bits as the type's significand holds, so that no rounding reaches 1. All of these conversions are exact.
    uint kept = DTYPE == F16 ? 11 : DTYPE == BF16 ? 8 : 24;
    store_float(p.y, i, DTYPE, float(words.x >> (32 - kept)) * uintBitsToFloat((127 - kept) << 23));
  }
}
#endif

void main() {
  uint b = (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * 256 + gl_LocalInvocationID.x;
  uvec2 seed = p.seed, offset = p.offset;
  if ((p.stream.x | p.stream.y) != 0) {
    seed = BufferWords(p.stream).v[0];
    offset = BufferWords(p.stream).v[1];
  }
  uvec4 words = philox(uvec4(b, 0, offset), seed);
#ifdef DROPOUT
  for (uint k = 0; k < 4; ++k) {
    uint i = 4 * b + k;
    if (i >= p.n) return;
    bool keep = words[k] >= p.threshold && p.scale != 0.0;
    store_float(p.y, i, DTYPE, keep ? load_float(p.x, i, DTYPE) * p.scale : 0.0);
  }
#else
  if (KIND == INTEGER || (KIND == UNIFORM && DTYPE == F64)) {
    put(2 * b, words.xy);
    put(2 * b + 1, words.zw);
  } else {
    for (uint k = 0; k < 4; ++k) put(4 * b + k, uvec2(words[k], 0));
  }
#endif
}
