// Weights in block formats for integer dot products, in units of 64 elements that are stored together in a block and
// share scales, so that a thread reads 16 bytes at once and decodes each scale once.
//
// A unit consists of groups, each with its own scale and minimum. The elements of a group are adjacent; groups are
// group_distance() elements apart.
#ifndef ETNA_QUANT_UNITS_GLSL
#define ETNA_QUANT_UNITS_GLSL

#include "quant_blocks.glsl"

struct PackedUnit {
  uint quants[16];    // four elements each, group after group
  vec4 scale, least;  // of each group
};

uint unit_groups(uint format) { return has_short_groups(format) ? 4 : 2; }
uint group_distance(uint format) { return has_short_groups(format) && chunk_is_group(format) ? 16 : 32; }

uint unit_first(uint format, uint unit) {
  return group_distance(format) * unit_groups(format) == 128 ? unit / 2 * 128 + unit % 2 * 16 : unit * 64;
}

// From four chunks, which contain a unit in every format.
PackedUnit unit_of_chunks(uint format, BlockRow r, uint unit, float tail) {
  PackedUnit k;
  k.scale = k.least = vec4(0.0);
  [[unroll]] for (uint j = 0; j < 4; ++j) {
    PackedChunk chunk = decode_bytes(format, r, 4 * unit + j, tail);
    [[unroll]] for (uint i = 0; i < 4; ++i) {
      uint place = 4 * j + i;  // where quads follow each other
      if (has_short_groups(format) && !chunk_is_group(format)) place = 4 * i + j;
      else if (quad_distances(format) == uvec2(4, 16)) place = j / 2 * 8 + j % 2 * 2 + i % 2 + i / 2 * 4;
      k.quants[place] = chunk.quants[i];
    }
    if (has_short_groups(format) && chunk_is_group(format)) {
      k.scale[j] = chunk.scale.x;
      k.least[j] = chunk.least.x;
    } else if (has_short_groups(format)) {
      k.scale = chunk.scale;
      k.least = chunk.least;
    } else if (j % 2 == 0) {
      k.scale[j / 2] = chunk.scale.x;
      k.least[j / 2] = chunk.least.x;
    }
  }
  return k;
}

bool has_word_units(uint format) { return format == Q8_0 || format == Q4_0 || format == Q5_0; }

// Two blocks of 4 n + 2 bytes, in rows aligned to four bytes: their u32s are read once, two at a time. The first
// block's quants are misaligned by two bytes, the second's are not.
PackedUnit decode_words(uint format, BlockRow r, uint unit) {
  const uint words = format == Q8_0 ? 17 : format == Q5_0 ? 11 : 9;
  uint first = (r.skew >> 2) + unit * words;
  bool odd = (first & 1u) != 0;
  uint pairs[18], w[18];
  [[unroll]] for (uint i = 0; i < words / 2 + 1; ++i) {
    uvec2 two = BufferWords(r.base).v[first / 2 + i];
    pairs[2 * i] = two.x;
    pairs[2 * i + 1] = two.y;
  }
  [[unroll]] for (uint i = 0; i < words; ++i) w[i] = odd ? pairs[i + 1] : pairs[i];
  PackedUnit k;
  k.scale = vec4(half_to_float(w[0] & 0xffffu), half_to_float(w[words / 2] >> 16), 0.0, 0.0);
  k.least = vec4(0.0);
  [[unroll]] for (uint g = 0; g < 2; ++g) {
    const uint at = g == 0 ? 0 : words / 2 + 1;  // the u32 with the scale, or the first one after it
    uint high = 0;
    if (format == Q5_0) high = g == 0 ? w[0] >> 16 | w[1] << 16 : w[at];
    const uint quants = format == Q5_0 ? at + 1 : at;
    if (format == Q8_0) {
      [[unroll]] for (uint i = 0; i < 8; ++i)
        k.quants[8 * g + i] = g == 0 ? w[quants + i] >> 16 | w[quants + i + 1] << 16 : w[quants + i];
      continue;
    }
    [[unroll]] for (uint i = 0; i < 4; ++i) {
      uint four = g == 0 ? w[quants + i] >> 16 | w[quants + i + 1] << 16 : w[quants + i];
      k.quants[8 * g + i] = four & kLow4;
      k.quants[8 * g + 4 + i] = four >> 4 & kLow4;
      if (format == Q5_0) {
        k.quants[8 * g + i] |= fifth_bits(high, 4 * i);
        k.quants[8 * g + 4 + i] |= fifth_bits(high, 16 + 4 * i);
      }
    }
  }
  return k;
}

// @param tail the scale of I2_S @param words whether rows are aligned to four bytes
PackedUnit decode_unit(uint format, BlockRow r, uint unit, float tail, bool words) {
  if (words && has_word_units(format)) return decode_words(format, r, unit);
  PackedUnit k;
  k.scale = vec4(1.0);
  k.least = vec4(0.0);
  switch (format) {
    case Q8_0: {
      [[unroll]] for (uint g = 0; g < 2; ++g) {
        uint at = (2 * unit + g) * 34;
        [[unroll]] for (uint h = 0; h < 2; ++h) {
          uvec4 w = four_u32_at(r, at + 2 + 16 * h);
          [[unroll]] for (uint i = 0; i < 4; ++i) k.quants[8 * g + 4 * h + i] = w[i];
        }
        k.scale[g] = half_at(r, at);
      }
      break;
    }
    case Q4_0: {
      [[unroll]] for (uint g = 0; g < 2; ++g) {
        uint at = (2 * unit + g) * 18;
        uvec4 w = four_u32_at(r, at + 2);
        [[unroll]] for (uint i = 0; i < 4; ++i) {
          k.quants[8 * g + i] = w[i] & kLow4;
          k.quants[8 * g + 4 + i] = w[i] >> 4 & kLow4;
        }
        k.scale[g] = half_at(r, at);
      }
      break;
    }
    case Q4_K:
    case Q5_K: {
      const uint bytes = format == Q4_K ? 144 : 176, quants = format == Q4_K ? 16 : 48;
      uint at = unit / 4 * bytes, pair = unit % 4;
      uvec4 head = whole_four_u32_at(r, at);
      [[unroll]] for (uint h = 0; h < 2; ++h) {
        uvec4 w = whole_four_u32_at(r, at + quants + 32 * pair + 16 * h);
        [[unroll]] for (uint i = 0; i < 4; ++i) {
          k.quants[4 * h + i] = w[i] & kLow4;
          k.quants[4 * h + 8 + i] = w[i] >> 4 & kLow4;
        }
        if (format == Q5_K) {
          uvec4 fifth = whole_four_u32_at(r, at + 16 + 16 * h) >> 2 * pair;
          [[unroll]] for (uint i = 0; i < 4; ++i) {
            k.quants[4 * h + i] |= (fifth[i] & 0x01010101u) << 4;
            k.quants[4 * h + 8 + i] |= (fifth[i] >> 1 & 0x01010101u) << 4;
          }
        }
      }
      uvec2 even = k_scale(head.yzw, 2 * pair), odd = k_scale(head.yzw, 2 * pair + 1);
      vec2 d = unpackHalf2x16(head.x);
      k.scale.xy = d.x * vec2(even.x, odd.x);
      k.least.xy = d.y * vec2(even.y, odd.y);
      break;
    }
    case Q6_K: {
      uint at = unit / 4 * 210, half_block = unit / 2 % 2, t = unit % 2;
      uvec4 a = four_u32_at(r, at + 64 * half_block + 16 * t), b = four_u32_at(r, at + 64 * half_block + 32 + 16 * t);
      uvec4 high = four_u32_at(r, at + 128 + 32 * half_block + 16 * t);
      uvec2 s = two_u32_at(r, at + 192 + 8 * half_block) >> 8 * t;
      [[unroll]] for (uint i = 0; i < 4; ++i) {
        k.quants[i] = (a[i] & kLow4) | (high[i] & kLow2) << 4;
        k.quants[4 + i] = (b[i] & kLow4) | (high[i] >> 2 & kLow2) << 4;
        k.quants[8 + i] = (a[i] >> 4 & kLow4) | (high[i] >> 4 & kLow2) << 4;
        k.quants[12 + i] = (b[i] >> 4 & kLow4) | (high[i] >> 6 & kLow2) << 4;
      }
      k.scale = half_at(r, at + 208) * vec4(from_signed_byte(s.x), from_signed_byte(s.x >> 16), from_signed_byte(s.y),
                                            from_signed_byte(s.y >> 16));
      break;
    }
    default:
      k = unit_of_chunks(format, r, unit, tail);
  }
  return k;
}

#endif
