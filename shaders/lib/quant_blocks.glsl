// Weights in block formats (tensor/quant/), decoded in chunks of sixteen elements. A chunk is the content of one to
// four u32s of a block, so that adjacent threads read adjacent bytes. It consists of four quads of adjacent elements;
// the quads are not adjacent if the format packs distant elements into one byte. An element's value is scale * quant -
// least, in the CPU's order of operations. Quants are floats, or bytes for integer dot products.
//
// The format is a specialization constant at every use, so the compiler removes the switches.
#ifndef ETNA_QUANT_BLOCKS_GLSL
#define ETNA_QUANT_BLOCKS_GLSL

#extension GL_EXT_control_flow_attributes : require
#include "units.glsl"
#include "vectors.glsl"

// GGUF's numbers; the last two are Etna's. The numbers of integers in groups encode their layout: above INTEGERS, one
// bit for 8-bit quants, one for a zero point, and the number of elements per scale divided by 32.
const uint Q_F32 = 0, Q_F16 = 1, Q4_0 = 2, Q4_1 = 3, Q5_0 = 6, Q5_1 = 7, Q8_0 = 8, Q2_K = 10, Q3_K = 11, Q4_K = 12,
           Q5_K = 13, Q6_K = 14, IQ2_XXS = 16, IQ2_XS = 17, IQ3_XXS = 18, IQ1_S = 19, IQ4_NL = 20, IQ3_S = 21,
           IQ2_S = 22, IQ4_XS = 23, IQ1_M = 29, Q_BF16 = 30, TQ1_0 = 34, TQ2_0 = 35, I2_S = 36, MXFP4 = 39, NVFP4 = 40,
           INTEGERS = 256;

bool is_unquantized(uint format) { return format == Q_F32 || format == Q_F16 || format == Q_BF16; }
bool is_integers(uint format) { return format >= INTEGERS; }
uint integer_bits(uint format) { return (format & 1u) != 0 ? 8 : 4; }
bool has_zero_point(uint format) { return is_integers(format) && (format & 2u) != 0; }
uint integer_group(uint format) { return (format - INTEGERS) / 4 * 32; }
bool is_nibbles_of_32(uint format) {
  return format == Q4_0 || format == Q4_1 || format == Q5_0 || format == Q5_1 || format == IQ4_NL || format == IQ4_XS ||
         format == MXFP4 || is_integers(format) && integer_bits(format) == 4;
}
// Points of a grid (quant_grids.glsl): magnitudes and signs, or unsigned quants.
bool has_signs(uint format) {
  return format == IQ2_XXS || format == IQ2_XS || format == IQ2_S || format == IQ3_XXS || format == IQ3_S;
}
bool has_points(uint format) { return has_signs(format) || format == IQ1_S || format == IQ1_M; }
bool has_minimum(uint format) {
  return has_zero_point(format) || format == Q4_1 || format == Q5_1 || format == Q2_K || format == Q4_K ||
         format == Q5_K;
}

// Formats with sub-blocks of sixteen elements: a chunk, or in most formats one quad of each of four chunks.
bool has_short_groups(uint format) {
  return format == Q2_K || format == Q3_K || format == Q6_K || format == TQ2_0 || format == I2_S || format == NVFP4 ||
         format == IQ2_XS || format == IQ2_S || format == IQ1_M;
}

// address + count * bytes, where the product may need 64 bits.
uvec2 address_of(uvec2 address, uint count, uint bytes) {
  uint high, low, carry;
  umulExtended(count, bytes, high, low);
  uint sum = uaddCarry(address.x, low, carry);
  return uvec2(sum, address.y + high + carry);
}

// A row of blocks. `aligned`: the alignment of every block: 16, 8, 4, 2 or 1 bytes; a specialization constant.
struct BlockRow {
  uvec2 base;  // the row's address rounded down to 8
  uint skew;   // bytes from there to the row
  uint aligned;
};
BlockRow block_row(uvec2 blocks, uint row, uint row_bytes, uint aligned) {
  uvec2 at = address_of(blocks, row, row_bytes);
  return BlockRow(uvec2(at.x & ~7u, at.y), aligned >= 8 ? 0u : at.x & 7u, aligned);
}

uint byte_at(BlockRow r, uint at) { return uint(BufferU8(r.base).v[r.skew + at]); }
// @param at even
uint u16_at(BlockRow r, uint at) {
  if (r.aligned >= 2) return uint(BufferU16(r.base).v[(r.skew + at) >> 1]);
  return byte_at(r, at) | byte_at(r, at + 1) << 8;
}
float half_at(BlockRow r, uint at) { return half_to_float(u16_at(r, at)); }

// Loads four, eight or sixteen bytes at any alignment by aligned loads: fewer than one load per byte. Only words that
// contain one of the bytes are read, and without a branch, so that all loads of a thread are in flight at once.
//
// Four u32s from `byte` on, out of five; the first starts in the first one. If offsets are even, each is one shift of
// two u32s by a constant, and a select.
uvec4 moved(BlockRow r, uint byte, uvec4 low, uvec4 next) {
  if (r.aligned >= 2) return (byte & 2u) != 0 ? low >> 16 | next << 16 : low;
  uint shift = 8 * (byte & 3u);
  return low >> shift | next << 1 << (31 - shift);
}
uint u32_at(BlockRow r, uint at) {
  uint byte = r.skew + at, i = byte >> 2, next = (byte & 3u) == 0 ? i : i + 1;
  return moved(r, byte, uvec4(BufferPair(r.base).v[i]), uvec4(BufferPair(r.base).v[next])).x;
}
uvec2 two_u32_at(BlockRow r, uint at) {
  uint byte = r.skew + at, i = byte >> 3, behind = byte & 7u;
  uvec2 a = BufferWords(r.base).v[i], b = BufferWords(r.base).v[behind == 0 ? i : i + 1];
  uvec3 w = behind >= 4 ? uvec3(a.y, b) : uvec3(a, b.x);
  return moved(r, byte, w.xyzz, w.yzzz).xy;
}
uvec4 four_u32_at(BlockRow r, uint at) {
  uint byte = r.skew + at, i = byte >> 3, behind = byte & 7u;
  uvec2 a = BufferWords(r.base).v[i], b = BufferWords(r.base).v[i + 1];
  uvec2 c = BufferWords(r.base).v[behind == 0 ? i + 1 : i + 2];
  uvec4 low = behind >= 4 ? uvec4(a.y, b, c.x) : uvec4(a, b);
  uint last = behind >= 4 ? c.y : c.x;
  return moved(r, byte, low, uvec4(low.yzw, last));
}
// The same for formats whose blocks are a multiple of four bytes.
uint whole_u32_at(BlockRow r, uint at) {
  return r.aligned >= 4 ? BufferPair(r.base).v[(r.skew + at) >> 2] : u32_at(r, at);
}
uvec2 whole_two_u32_at(BlockRow r, uint at) {
  if (r.aligned >= 8) return BufferWords(r.base).v[at >> 3];
  if (r.aligned >= 4) return uvec2(whole_u32_at(r, at), whole_u32_at(r, at + 4));
  return two_u32_at(r, at);
}
uvec4 whole_four_u32_at(BlockRow r, uint at) {
  if (r.aligned >= 16) return BufferQuads(r.base).v[at >> 4];
  return uvec4(whole_two_u32_at(r, at), whole_two_u32_at(r, at + 8));
}

// The scale of a whole tensor, after its blocks; 1 in formats without one.
float tail_scale(uint format, uvec2 tail) {
  if (format != I2_S) return 1.0;
  uint bits = 0;
  for (uint i = 0; i < 4; ++i) bits |= uint(BufferU8(tail).v[i]) << 8 * i;
  return uintBitsToFloat(bits);
}

// The first element of a chunk's quad. quads() gives the distances: x between 0 and 1, y between 0 and 2.
uint chunk_first(uint format, uint c) {
  if (is_nibbles_of_32(format)) return c / 2 * 32 + c % 2 * 8;
  switch (format) {
    case Q4_K: case Q5_K:
      return c / 4 * 64 + c % 4 * 8;
    case Q2_K: case Q3_K: case Q6_K: case TQ2_0: case I2_S:
      return c / 8 * 128 + c % 8 * 4;
    default:
      return c * 16;
  }
}
uvec2 quad_distances(uint format) {
  if (is_nibbles_of_32(format)) return uvec2(4, 16);
  switch (format) {
    case Q4_K: case Q5_K:
      return uvec2(4, 32);
    case Q2_K: case Q3_K: case Q6_K: case TQ2_0: case I2_S:
      return uvec2(32, 64);
    default:
      return uvec2(4, 8);
  }
}
// Whether the elements of a chunk are adjacent.
bool chunk_is_group(uint format) { return quad_distances(format) == uvec2(4, 8); }
uint quad_at(uint format, uint first, uint quad) {
  uvec2 apart = quad_distances(format);
  return first + quad % 2 * apart.x + quad / 2 * apart.y;
}

vec4 from_bytes(uint w) {
  return vec4(float(w & 0xffu), float(w >> 8 & 0xffu), float(w >> 16 & 0xffu), float(w >> 24));
}
vec4 from_signed_bytes(uint w) {
  ivec4 v = ivec4(int(w << 24), int(w << 16), int(w << 8), int(w));
  return vec4(v >> 24);
}
float from_signed_byte(uint b) { return float(int(b << 24) >> 24); }
// Bits n ... n + 3 of a u32 as bit 4 of its four bytes.
uint fifth_bits(uint bits, uint n) {
  return (bits >> n & 0xfu) * 0x02040810u & 0x10101010u;
}

const uint kLow4 = 0x0f0f0f0fu, kLow2 = 0x03030303u;

// The levels of 4-bit quants: sixteen of IQ4_NL and IQ4_XS, then MXFP4's E2M1 numbers times two. In shared memory,
// because each thread of a subgroup looks up a different quant.
const int kLevels[32] = int[32](-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113, 0, 1, 2, 3, 4,
                                6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12);
shared int level_table[32];

bool has_levels(uint format) {
  return format == IQ4_NL || format == IQ4_XS || format == MXFP4 || format == NVFP4;
}
// All threads of a workgroup (32 or more) must call this before they decode such a format.
void fill_level_table() {
  if (gl_LocalInvocationID.x < 32) level_table[gl_LocalInvocationID.x] = kLevels[gl_LocalInvocationID.x];
  barrier();
}
uint levels(uint four, uint first) {
  uvec4 quant = first + (uvec4(four, four >> 8, four >> 16, four >> 24) & 0xfu);
  return uint((level_table[quant.x] & 0xff) | (level_table[quant.y] & 0xff) << 8 | (level_table[quant.z] & 0xff) << 16 |
              level_table[quant.w] << 24);
}
// 2^(e - 127) divided by two. The two smallest are subnormal.
float half_power(uint e) { return uintBitsToFloat(e < 2 ? 0x00200000u << e : (e - 1u) << 23); }

// A float with 4 exponent and 3 mantissa bits, divided by two; 0x7f is 0.
float half_ue4m3(uint x) {
  uint e = x >> 3 & 15u, m = x & 7u;
  float units = float(e == 0 ? m : m + 8u);
  return x == 0x7fu ? 0.0 : units * uintBitsToFloat((max(e, 1u) + 116u) << 23);
}

// The 6-bit scale and minimum of sub-block `sub` of Q4_K and Q5_K; s holds the twelve bytes.
uvec2 k_scale(uvec3 s, uint sub) {
  uint shift = 8 * (sub & 3u);
  uvec3 b = s >> shift & 0xffu;
  uvec2 late = uvec2((b.z & 0xfu) | b.x >> 6 << 4, b.z >> 4 | b.y >> 6 << 4);
  return sub < 4 ? b.xy & 63u : late;
}

// Quads 0 and 1 from the low nibbles of eight bytes, 2 and 3 from the high ones.
void nibbles(uvec2 w, out uint four[4]) {
  four[0] = w.x & kLow4;
  four[1] = w.y & kLow4;
  four[2] = w.x >> 4 & kLow4;
  four[3] = w.y >> 4 & kLow4;
}

// The quant of 0, which is subtracted from the bytes of a chunk. Bytes are unsigned except in formats with levels.
uint quant_of_zero(uint format) {
  if (is_integers(format)) return integer_bits(format) == 4 && !has_zero_point(format) ? 8 : 0;
  switch (format) {
    case Q4_0: return 8;
    case Q5_0: return 16;
    case Q3_K: return 4;
    case Q6_K: return 32;
    case IQ1_S: case IQ1_M: return 9;
    case TQ1_0: case TQ2_0: case I2_S: return 1;
    default: return 0;
  }
}
bool has_signed_quants(uint format) {
  return format == Q8_0 || has_levels(format) || has_signs(format) || is_integers(format) && integer_bits(format) == 8;
}

#include "quant_grids.glsl"

struct PackedChunk {
  uint quants[4];      // of a quad, a byte each
  vec4 scale, least;  // of each quad
};

// Integers in groups. A zero point times a scale is exact, and so is its difference from a quant times the scale.
PackedChunk decode_integers(uint format, BlockRow r, uint c) {
  const uint bits = integer_bits(format), group = integer_group(format), head = has_zero_point(format) ? 4 : 2;
  uint first = c / 2 * 32, at = first / group * (head + group * bits / 8);
  uint quants = at + head + first % group * bits / 8;
  PackedChunk k;
  if (bits == 4) {
    nibbles(two_u32_at(r, quants + c % 2 * 8), k.quants);
  } else {
    uvec4 w = four_u32_at(r, quants + c % 2 * 16);
    [[unroll]] for (uint i = 0; i < 4; ++i) k.quants[i] = w[i];
  }
  float d = half_at(r, at);
  k.scale = vec4(d);
  k.least = vec4(has_zero_point(format) ? d * half_at(r, at + 2) : 0.0);
  return k;
}

// For quantized formats. @param tail the scale of I2_S
PackedChunk decode_bytes(uint format, BlockRow r, uint c, float tail) {
  if (is_integers(format)) return decode_integers(format, r, c);
  PackedChunk k;
  k.scale = vec4(1.0);
  k.least = vec4(0.0);
  if (has_points(format)) {
    float scale;
    decode_points(format, r, c, k.quants, scale);
    k.scale = vec4(scale);
    return k;
  }
  switch (format) {
    case Q8_0: {
      uint at = c / 2 * 34, quants = at + 2 + c % 2 * 16;
      uvec4 w = four_u32_at(r, quants);
      [[unroll]] for (uint i = 0; i < 4; ++i) k.quants[i] = w[i];
      k.scale = vec4(half_at(r, at));
      break;
    }
    case Q4_0: {
      uint at = c / 2 * 18;
      nibbles(two_u32_at(r, at + 2 + c % 2 * 8), k.quants);
      k.scale = vec4(half_at(r, at));
      break;
    }
    case Q4_1: {
      uint at = c / 2 * 20;
      nibbles(whole_two_u32_at(r, at + 4 + c % 2 * 8), k.quants);
      uint dm = whole_u32_at(r, at);
      k.scale = vec4(half_to_float(dm & 0xffffu));
      k.least = vec4(-half_to_float(dm >> 16));
      break;
    }
    case Q5_0:
    case Q5_1: {
      const uint quants = format == Q5_0 ? 2 : 4, bytes = format == Q5_0 ? 22 : 24;
      uint at = c / 2 * bytes, first = c % 2 * 8, high;
      if (format == Q5_0) {
        nibbles(two_u32_at(r, at + 6 + first), k.quants);
        high = u32_at(r, at + 2);
        k.scale = vec4(half_at(r, at));
      } else {
        nibbles(whole_two_u32_at(r, at + 8 + first), k.quants);
        high = whole_u32_at(r, at + 4);
        uint dm = whole_u32_at(r, at);
        k.scale = vec4(half_to_float(dm & 0xffffu));
        k.least = vec4(-half_to_float(dm >> 16));
      }
      [[unroll]] for (uint i = 0; i < 4; ++i) k.quants[i] |= fifth_bits(high, first + 4 * (i % 2) + 16 * (i / 2));
      break;
    }
    case Q2_K: {
      uint at = c / 16 * 84, half_block = c / 8 % 2, t = c % 8;
      uint w = whole_u32_at(r, at + 16 + 32 * half_block + 4 * t), dm = whole_u32_at(r, at + 80);
      uvec2 scales = whole_two_u32_at(r, at + 8 * half_block) >> 8 * (t / 4);
      uvec4 s = uvec4(scales.x, scales.x >> 16, scales.y, scales.y >> 16) & 0xffu;
      k.scale = half_to_float(dm & 0xffffu) * vec4(s & 0xfu);
      k.least = half_to_float(dm >> 16) * vec4(s >> 4);
      [[unroll]] for (uint i = 0; i < 4; ++i) k.quants[i] = w >> 2 * i & kLow2;
      break;
    }
    case Q3_K: {
      uint at = c / 16 * 110, half_block = c / 8 % 2, t = c % 8;
      uint w = u32_at(r, at + 32 + 32 * half_block + 4 * t), third = u32_at(r, at + 4 * t) >> 4 * half_block;
      // Sub-blocks part, part + 2, part + 4, part + 6 of the half.
      uvec2 low = two_u32_at(r, at + 96) >> (8 * (t / 4) + 4 * half_block);
      uint high = u32_at(r, at + 104) >> 8 * (t / 4) + 4 * half_block;
      uvec4 s = uvec4(low.x, low.x >> 16, low.y, low.y >> 16) & 0xfu;
      s |= (uvec4(high, high >> 16, high >> 2, high >> 18) & 3u) << 4;
      k.scale = half_at(r, at + 108) * vec4(ivec4(s) - 32);
      [[unroll]] for (uint i = 0; i < 4; ++i)
        k.quants[i] = (w >> 2 * i & kLow2) | (third >> i & 0x01010101u) << 2;
      break;
    }
    case Q4_K:
    case Q5_K: {
      const uint bytes = format == Q4_K ? 144 : 176, quants = format == Q4_K ? 16 : 48;
      uint at = c / 16 * bytes, pair = c / 4 % 4, t = c % 4;
      uvec4 head = whole_four_u32_at(r, at);
      nibbles(whole_two_u32_at(r, at + quants + 32 * pair + 8 * t), k.quants);
      uvec2 even = k_scale(head.yzw, 2 * pair), odd = k_scale(head.yzw, 2 * pair + 1);
      vec2 d = unpackHalf2x16(head.x);
      k.scale = d.x * vec4(uvec4(even.xx, odd.xx));
      k.least = d.y * vec4(uvec4(even.yy, odd.yy));
      if (format == Q5_K) {
        uvec2 fifth = whole_two_u32_at(r, at + 16 + 8 * t) >> 2 * pair;
        k.quants[0] |= (fifth.x & 0x01010101u) << 4;
        k.quants[1] |= (fifth.y & 0x01010101u) << 4;
        k.quants[2] |= (fifth.x >> 1 & 0x01010101u) << 4;
        k.quants[3] |= (fifth.y >> 1 & 0x01010101u) << 4;
      }
      break;
    }
    case Q6_K: {
      uint at = c / 16 * 210, half_block = c / 8 % 2, t = c % 8;
      uint a = u32_at(r, at + 64 * half_block + 4 * t), b = u32_at(r, at + 64 * half_block + 32 + 4 * t);
      uint high = u32_at(r, at + 128 + 32 * half_block + 4 * t);
      uvec2 s = two_u32_at(r, at + 192 + 8 * half_block) >> 8 * (t / 4);
      k.scale = half_at(r, at + 208) * vec4(from_signed_byte(s.x), from_signed_byte(s.x >> 16), from_signed_byte(s.y),
                                            from_signed_byte(s.y >> 16));
      k.quants[0] = (a & kLow4) | (high & kLow2) << 4;
      k.quants[1] = (b & kLow4) | (high >> 2 & kLow2) << 4;
      k.quants[2] = (a >> 4 & kLow4) | (high >> 4 & kLow2) << 4;
      k.quants[3] = (b >> 4 & kLow4) | (high >> 6 & kLow2) << 4;
      break;
    }
    case IQ4_NL: {
      uint at = c / 2 * 18;
      nibbles(two_u32_at(r, at + 2 + c % 2 * 8), k.quants);
      [[unroll]] for (uint i = 0; i < 4; ++i) k.quants[i] = levels(k.quants[i], 0);
      k.scale = vec4(half_at(r, at));
      break;
    }
    case IQ4_XS: {
      uint at = c / 16 * 136, sub = c / 2 % 8;
      nibbles(whole_two_u32_at(r, at + 8 + 16 * sub + c % 2 * 8), k.quants);
      uvec2 head = whole_two_u32_at(r, at);
      uint six = (head.y >> 4 * sub & 0xfu) | (head.x >> (16 + 2 * sub) & 3u) << 4;
      [[unroll]] for (uint i = 0; i < 4; ++i) k.quants[i] = levels(k.quants[i], 0);
      k.scale = vec4(half_to_float(head.x & 0xffffu) * float(int(six) - 32));
      break;
    }
    case MXFP4: {
      uint at = c / 2 * 17;
      nibbles(two_u32_at(r, at + 1 + c % 2 * 8), k.quants);
      [[unroll]] for (uint i = 0; i < 4; ++i) k.quants[i] = levels(k.quants[i], 16);
      k.scale = vec4(half_power(byte_at(r, at)));
      break;
    }
    case NVFP4: {
      uint at = c / 4 * 36, sub = c % 4;
      nibbles(whole_two_u32_at(r, at + 4 + 8 * sub), k.quants);
      [[unroll]] for (uint i = 0; i < 4; ++i) k.quants[i] = levels(k.quants[i], 16);
      k.scale = vec4(half_ue4m3(whole_u32_at(r, at) >> 8 * sub & 0xffu));
      break;
    }
    case TQ1_0: {
      const uint kPowers[5] = uint[5](1, 3, 9, 27, 81);
      uint at = c / 16 * 54;
      [[unroll]] for (uint i = 0; i < 4; ++i) {
        // Quads of elements: 8 words of 5 digits, 4 words of 5 digits, a word of 4.
        uint quad = c % 16 * 4 + i, digit, word;
        if (quad < 40) digit = quad / 8, word = quad % 8;
        else if (quad < 60) digit = (quad - 40) / 4, word = 8 + quad % 4;
        else digit = quad - 60, word = 12;
        uint w = u32_at(r, at + 4 * word), power = kPowers[digit];
        k.quants[i] = 0;
        [[unroll]] for (uint j = 0; j < 4; ++j)
          k.quants[i] |= ((w >> 8 * j & 0xffu) * power & 0xffu) * 3 >> 8 << 8 * j;
      }
      k.scale = vec4(half_at(r, at + 52));
      break;
    }
    case TQ2_0: {
      uint at = c / 16 * 66, w = u32_at(r, at + 4 * (c % 16));
      [[unroll]] for (uint i = 0; i < 4; ++i) k.quants[i] = w >> 2 * i & kLow2;
      k.scale = vec4(half_at(r, at + 64));
      break;
    }
    case I2_S: {
      uint w = whole_u32_at(r, 4 * c);
      [[unroll]] for (uint i = 0; i < 4; ++i) k.quants[i] = w >> (6 - 2 * i) & kLow2;
      k.scale = vec4(tail);
      break;
    }
  }
  return k;
}

struct Chunk {
  vec4 quants[4];      // the values themselves in an unquantized format
  vec4 scale, least;  // of each quad
};

// @param columns elements of the row; an unquantized format's last chunk may end early. @param tail the scale of I2_S
Chunk decode_chunk(uint format, BlockRow r, uint c, uint columns, float tail) {
  Chunk k;
  k.scale = vec4(1.0);
  k.least = vec4(0.0);
  switch (format) {
    case Q_F32:
      [[unroll]] for (uint i = 0; i < 4; ++i) {
        uint e = 16 * c + 4 * i;
        k.quants[i] = vec4(0.0);
        if (r.aligned >= 16) {
          if (e < columns) k.quants[i] = BufferVec4(r.base).v[e / 4];
        } else {
          [[unroll]] for (uint j = 0; j < 4; ++j)
            if (e + j < columns) k.quants[i][j] = uintBitsToFloat(whole_u32_at(r, 4 * (e + j)));
        }
      }
      break;
    case Q_F16:
    case Q_BF16: {
      const uint dtype = format == Q_F16 ? F16 : BF16;
      if (r.aligned >= 16) {
        [[unroll]] for (uint h = 0; h < 2; ++h) {
          uint e = 16 * c + 8 * h;
          uvec4 w = e < columns ? BufferQuads(r.base).v[e / 8] : uvec4(0);
          k.quants[2 * h] = vec4(widen_pair(w.x, dtype), widen_pair(w.y, dtype));
          k.quants[2 * h + 1] = vec4(widen_pair(w.z, dtype), widen_pair(w.w, dtype));
        }
      } else {
        [[unroll]] for (uint i = 0; i < 16; ++i) {
          uint e = 16 * c + i, bits = e < columns ? u16_at(r, 2 * e) : 0;
          k.quants[i / 4][i % 4] = format == Q_F16 ? half_to_float(bits) : bfloat16_to_float(bits);
        }
      }
      break;
    }
    default: {
      PackedChunk packed = decode_bytes(format, r, c, tail);
      k.scale = packed.scale;
      k.least = packed.least;
      [[unroll]] for (uint i = 0; i < 4; ++i) {
        uint w = packed.quants[i];
        k.quants[i] = (has_signed_quants(format) ? from_signed_bytes(w) : from_bytes(w)) - float(quant_of_zero(format));
      }
    }
  }
  return k;
}

#endif
