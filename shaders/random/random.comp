#version 460
#extension GL_GOOGLE_include_directive : require
// Random numbers and dropout by Philox4x32-10. A thread makes one block of four u32s: four numbers of one u32 each, or
// two numbers of two (64 bits). Integer arithmetic and `precise` give the same bits as tensor/ops/random/random.cpp.
//
// Dropout is bytes-bound: one read, one write, no mask; the backward pass generates the same numbers again. A block
// serves four neighbours, which are loaded and stored at once. A thread has BLOCKS of them, 1024 elements apart, all in
// flight while it computes the first block: ten rounds of multiplications take about as long as the memory latency, and
// a third of the transfer time.
//
// Lost: element by element, one load and one store per u32, with neighbouring threads four elements apart: 1.9 times
// the time.
//
// variant: random_fill
// variant: dropout DROPOUT

#extension GL_EXT_control_flow_attributes : require
#include "philox.glsl"
#include "vectors.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint DTYPE = 1;
#ifdef DROPOUT
layout(constant_id = 1) const uint WIDTH = 1;   // elements per load
layout(constant_id = 2) const uint BLOCKS = 1;  // blocks per thread
#else
layout(constant_id = 1) const uint KIND = 0;
#endif

layout(push_constant, scalar) uniform Push {
  uvec2 y, x;
  uvec2 seed, offset;
  uvec2 stream;      // address of seed and offset, in a step that is replayed; 0: use those above
  uvec2 low, range;  // integers in [low, low + range)
  uint n;
  uint threshold;    // dropout keeps elements whose u32 is at least this
  float scale;       // of kept elements; 0 keeps nothing
} p;

#ifndef DROPOUT
const uint UNIFORM = 0, NORMAL = 1, INTEGER = 2, EXPONENTIAL = 3;

// k · 2^-53 as the u32s of an f64, k < 2^53.
uvec2 fraction53(uvec2 k) {
  if ((k.x | k.y) == 0) return uvec2(0);
  int top = k.y != 0 ? 32 + findMSB(k.y) : findMSB(k.x);
  uint shift = uint(52 - top);
  uvec2 m = shift >= 32 ? uvec2(0, k.x << (shift - 32))
            : shift == 0 ? k
                         : uvec2(k.x << shift, (k.y << shift) | (k.x >> (32 - shift)));
  return uvec2(m.x, (m.y & 0xfffffu) | (uint(top - 53 + 1023) << 20));
}

// An f32, normal or zero, as the u32s of the same f64.
uvec2 widened(float value) {
  uint u = floatBitsToUint(value), magnitude = u & 0x7fffffffu;
  if (magnitude == 0) return uvec2(0, u);
  return uvec2(magnitude << 29, (u & 0x80000000u) | ((magnitude >> 3) + (896u << 20)));
}

// The upper 64 bits of a 64 x 64 bit product.
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
  } else if (KIND == NORMAL || KIND == EXPONENTIAL) {
    float z = KIND == NORMAL ? standard_normal(words.x) : standard_exponential(words.x);
    if (DTYPE == F64) BufferWords(p.y).v[i] = widened(z);
    else store_float(p.y, i, DTYPE, z);
  } else if (DTYPE == F64) {
    BufferWords(p.y).v[i] = fraction53(uvec2((words.x >> 11) | (words.y << 21), words.y >> 11));
  } else {
    // As many bits as the type's significand, so that no rounding reaches 1. All of these conversions are exact.
    uint kept = DTYPE == F16 ? 11 : DTYPE == BF16 ? 8 : 24;
    store_float(p.y, i, DTYPE, float(words.x >> (32 - kept)) * uintBitsToFloat((127 - kept) << 23));
  }
}
#endif

void main() {
  uint group = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x, me = gl_LocalInvocationID.x;
  uvec2 seed = p.seed, offset = p.offset;
  if ((p.stream.x | p.stream.y) != 0) {
    seed = BufferWords(p.stream).v[0];
    offset = BufferWords(p.stream).v[1];
  }
#ifdef DROPOUT
  vec4 x[BLOCKS];
  uint first = group * BLOCKS * 256 + me;
  [[unroll]] for (uint k = 0; k < BLOCKS; ++k) {
    uint i = (first + k * 256) * 4, count = i < p.n ? min(4, p.n - i) : 0;
    if (count == 4) x[k] = load_vector(p.x, i, 4, DTYPE, WIDTH);
    else x[k] = load_vector(p.x, i, count, DTYPE, 1);
  }
  [[unroll]] for (uint k = 0; k < BLOCKS; ++k) {
    uint b = first + k * 256, i = b * 4, count = i < p.n ? min(4, p.n - i) : 0;
    uvec4 words = philox(uvec4(b, 0, offset), seed);
    vec4 y;
    [[unroll]] for (uint c = 0; c < 4; ++c) y[c] = words[c] >= p.threshold && p.scale != 0.0 ? x[k][c] * p.scale : 0.0;
    if (count == 4) store_vector(p.y, i, 4, DTYPE, WIDTH, y);
    else store_vector(p.y, i, count, DTYPE, 1, y);
  }
#else
  uint b = group * 256 + me;
  uvec4 words = philox(uvec4(b, 0, offset), seed);
  if (KIND == INTEGER || (KIND == UNIFORM && DTYPE == F64)) {
    put(2 * b, words.xy);
    put(2 * b + 1, words.zw);
  } else {
    for (uint k = 0; k < 4; ++k) put(4 * b + k, uvec2(words[k], 0));
  }
#endif
}
