// Quantized activations: 16 elements per scale, value = scale * quant; the largest magnitude of a block has quant 127.
// A block with an infinity or NaN has the scale NaN. In memory: the quants of all rows, then a scale for each block,
// then, for each block, the sum of squares of the unquantized values before the norm's weight.
#ifndef ETNA_ROUNDING_GLSL
#define ETNA_ROUNDING_GLSL

#include "math.glsl"

const uint ROUNDED_BLOCK = 16;

// Index, in f32s, of the numbers of the block that contains element e of a row. @param k elements of a row, a multiple
// of 16
uint scale_place(uint rows, uint k, uint row, uint e) { return rows * k / 4 + (row * k + e) / ROUNDED_BLOCK; }
uint square_place(uint rows, uint k, uint row, uint e) {
  return rows * k / 4 + rows * k / ROUNDED_BLOCK + (row * k + e) / ROUNDED_BLOCK;
}

struct RoundingScale {
  float scale;    // NaN if a value is infinite or NaN
  float inverse;  // 0 if all quants are 0
};

// @param most the largest magnitude
RoundingScale rounding_scale(float most) {
  bool finite = !m_isnan(most) && !m_isinf(most);
  float scale = most / 127.0, inverse = 1.0 / scale;
  // Numbers so small that 1 / scale overflows become 0.
  bool zero = !finite || scale == 0.0 || m_isinf(inverse);
  return RoundingScale(finite ? scale : uintBitsToFloat(0x7fc00000u), zero ? 0.0 : inverse);
}

// Four quants, the first in the lowest byte.
uint rounded_codes(vec4 values, RoundingScale scale) {
  if (scale.inverse == 0.0) return 0;
  uvec4 c = uvec4(ivec4(roundEven(values * scale.inverse))) & 0xffu;
  return c.x | c.y << 8 | c.z << 16 | c.w << 24;
}

#endif
