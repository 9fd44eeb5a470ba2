// Rows rounded to bytes, 16 to a scale: value = scale * code; the largest magnitude of a block has code 127. A block
// with an infinity or NaN has the scale NaN. In memory: the codes of all rows, then a scale for each block, then the
// sum of the squares of what was rounded, before the weight of a norm, for each block.
#ifndef ETNA_ROUNDING_GLSL
#define ETNA_ROUNDING_GLSL

#include "math.glsl"

const uint ROUNDED_BLOCK = 16;

// Places in f32 of what belongs to the block of element e of a row. @param k elements of a row, a multiple of 16
uint scale_place(uint rows, uint k, uint row, uint e) { return rows * k / 4 + (row * k + e) / ROUNDED_BLOCK; }
uint square_place(uint rows, uint k, uint row, uint e) {
  return rows * k / 4 + rows * k / ROUNDED_BLOCK + (row * k + e) / ROUNDED_BLOCK;
}

struct RoundingScale {
  float scale;    // NaN where a value is infinite or NaN
  float inverse;  // 0 where nothing is left of the values
};

// @param most the largest magnitude
RoundingScale rounding_scale(float most) {
  bool finite = !m_isnan(most) && !m_isinf(most);
  float scale = most / 127.0, inverse = 1.0 / scale;
  // Of numbers so small that 1 / scale overflows, nothing is left.
  bool zero = !finite || scale == 0.0 || m_isinf(inverse);
  return RoundingScale(finite ? scale : uintBitsToFloat(0x7fc00000u), zero ? 0.0 : inverse);
}

// Four codes, the first in the lowest byte.
uint rounded_codes(vec4 values, RoundingScale scale) {
  if (scale.inverse == 0.0) return 0;
  uvec4 c = uvec4(ivec4(roundEven(values * scale.inverse))) & 0xffu;
  return c.x | c.y << 8 | c.z << 16 | c.w << 24;
}

#endif
