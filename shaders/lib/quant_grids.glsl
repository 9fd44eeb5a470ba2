// Chunks of the formats whose quants are points of a grid (tensor/quant/internal/grid_formats.h): eight or four
// elements are one index into a table of points. Included by quant_blocks.glsl.
//
// The points are in a buffer. A table has up to 16 KiB, which stay in a cache beside the weights. Not constant arrays,
// which some compilers copy to the private memory of each invocation, and not shared memory, which each workgroup of a
// GEMV would fill with more bytes than it reads of its rows.
#ifndef ETNA_QUANT_GRIDS_GLSL
#define ETNA_QUANT_GRIDS_GLSL

// Address of GridPoints (tensor/quant/internal/grid_tables.h); main() sets it.
uvec2 grid_points;

// Where the points of a format begin there, counted in points.
uint first_point(uint format) {
  switch (format) {
    case IQ2_XS: return 256;
    case IQ2_S: return 768;
    case IQ1_S: case IQ1_M: return 1792;
    case IQ3_XXS: return 7680;
    case IQ3_S: return 7936;
    default: return 0;
  }
}
uvec2 eight_levels(uint format, uint index) { return BufferWords(grid_points).v[first_point(format) + index]; }
uvec2 two_of_four_levels(uint format, uvec2 index) {
  return uvec2(BufferPair(grid_points).v[first_point(format) + index.x],
               BufferPair(grid_points).v[first_point(format) + index.y]);
}

// Twice eight signs from twice seven, in the low bits of a byte each: the eighth makes their number even.
uint even_signs(uint sevens) {
  uint odd = sevens ^ sevens >> 4;
  odd ^= odd >> 2;
  odd ^= odd >> 1;
  return sevens | (odd & 0x0101u) << 7;
}

// Four magnitudes, all at least 1, as signed bytes. @param negative a bit for each
uint with_signs(uint magnitudes, uint negative) {
  uint ones = (negative & 0xfu) * 0x00204081u & 0x01010101u;
  return (magnitudes ^ ones * 0xffu) + ones;
}

uint odd_number(uint s) { return 2 * (s & 0xfu) + 1; }

// Bytes of a chunk, whose elements are adjacent: half `h` of run `run` of 32 elements. @param scale of all of them
void decode_points(uint format, BlockRow r, uint c, out uint quants[4], out float scale) {
  uint run = c / 2 % 8, h = c % 2, signs = 0;
  uvec2 first, last;
  switch (format) {
    case IQ2_XXS: {
      uint at = c / 16 * 66;
      uvec2 w = two_u32_at(r, at + 2 + 8 * run);
      uint index = w.x >> 16 * h, sevens = w.y >> 14 * h;
      first = eight_levels(format, index & 0xffu);
      last = eight_levels(format, index >> 8 & 0xffu);
      signs = even_signs((sevens & 0x7fu) | (sevens & 0x3f80u) << 1);
      scale = half_at(r, at) * (0.125 * float(odd_number(w.y >> 28)));
      break;
    }
    case IQ2_XS: {
      uint at = c / 16 * 74, w = u32_at(r, at + 2 + 8 * run + 4 * h);
      first = eight_levels(format, w & 0x1ffu);
      last = eight_levels(format, w >> 16 & 0x1ffu);
      signs = even_signs((w >> 9 & 0x7fu) | w >> 25 << 8);
      scale = half_at(r, at) * (0.125 * float(odd_number(byte_at(r, at + 66 + run) >> 4 * h)));
      break;
    }
    case IQ2_S: {
      uint at = c / 16 * 82, low = u16_at(r, at + 2 + 4 * run + 2 * h), high = byte_at(r, at + 66 + run) >> 4 * h;
      first = eight_levels(format, (low & 0xffu) | (high & 3u) << 8);
      last = eight_levels(format, low >> 8 | (high >> 2 & 3u) << 8);
      signs = u16_at(r, at + 34 + 4 * run + 2 * h);
      scale = half_at(r, at) * (0.125 * float(odd_number(byte_at(r, at + 74 + run) >> 4 * h)));
      break;
    }
    case IQ3_XXS: {
      uint at = c / 16 * 98, index = u32_at(r, at + 2 + 8 * run + 4 * h), rest = u32_at(r, at + 66 + 4 * run);
      first = two_of_four_levels(format, uvec2(index, index >> 8) & 0xffu);
      last = two_of_four_levels(format, uvec2(index >> 16, index >> 24) & 0xffu);
      uint sevens = rest >> 14 * h;
      signs = even_signs((sevens & 0x7fu) | (sevens & 0x3f80u) << 1);
      scale = half_at(r, at) * (0.25 * float(odd_number(rest >> 28)));
      break;
    }
    case IQ3_S: {
      uint at = c / 16 * 110, low = u32_at(r, at + 2 + 8 * run + 4 * h), ninth = byte_at(r, at + 66 + run) >> 4 * h;
      uvec4 index = uvec4(low, low >> 8, low >> 16, low >> 24) & 0xffu;
      index |= (uvec4(ninth, ninth >> 1, ninth >> 2, ninth >> 3) & 1u) << 8;
      first = two_of_four_levels(format, index.xy);
      last = two_of_four_levels(format, index.zw);
      signs = u16_at(r, at + 74 + 4 * run + 2 * h);
      scale = half_at(r, at) * float(odd_number(byte_at(r, at + 106 + run / 2) >> 4 * (run % 2)));
      break;
    }
    case IQ1_S: {
      uint at = c / 16 * 50, low = u16_at(r, at + 2 + 4 * run + 2 * h), rest = u16_at(r, at + 34 + 2 * run);
      uint high = rest >> 6 * h;
      uvec2 up = uvec2((rest & 0x8000u) != 0 ? 0 : 0x02020202u);
      first = eight_levels(format, (low & 0xffu) | (high & 7u) << 8) + up;
      last = eight_levels(format, low >> 8 | (high >> 3 & 7u) << 8) + up;
      scale = half_at(r, at) * (0.125 * float(odd_number(rest >> 12 & 7u)));
      break;
    }
    case IQ1_M:
    default: {
      uint at = c / 16 * 56, low = u16_at(r, at + 4 * run + 2 * h), rest = byte_at(r, at + 32 + 2 * run + h);
      first = eight_levels(format, (low & 0xffu) | (rest & 7u) << 8) + uvec2((rest & 8u) != 0 ? 0 : 0x02020202u);
      last = eight_levels(format, low >> 8 | (rest >> 4 & 7u) << 8) + uvec2((rest & 0x80u) != 0 ? 0 : 0x02020202u);
      // The top four bits of each u16 are a part of the f16, the lowest first; below them are four s of three bits.
      uvec2 w = two_u32_at(r, at + 48);
      uint d = (w.x >> 12 & 0xfu) | w.x >> 28 << 4 | (w.y >> 12 & 0xfu) << 8 | w.y >> 28 << 12;
      uint s = (run < 4 ? w.x : w.y) >> (run / 2 % 2 * 16 + run % 2 * 6 + 3 * h);
      scale = half_to_float(d) * (0.125 * float(odd_number(s & 7u)));
    }
  }
  quants[0] = has_signs(format) ? with_signs(first.x, signs) : first.x;
  quants[1] = has_signs(format) ? with_signs(first.y, signs >> 4) : first.y;
  quants[2] = has_signs(format) ? with_signs(last.x, signs >> 8) : last.x;
  quants[3] = has_signs(format) ? with_signs(last.y, signs >> 12) : last.y;
}

#endif
