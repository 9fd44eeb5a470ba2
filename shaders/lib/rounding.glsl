// Quantized activations: bytes in blocks of 16 elements, value = scale * quant; the largest magnitude of a block has
// quant 127. The scale of a block with an infinity or NaN is NaN. In memory: the quants of all rows, then the scale of
// each block, then each block's sum of squares before the norm's weight is applied.
#ifndef ETNA_ROUNDING_GLSL
#define ETNA_ROUNDING_GLSL

#include "math.glsl"

const uint ACTIVATION_BLOCK = 16;

// The f32 index of the scale and of the sum of squares of the block with element e of a row. @param k elements of a
// row, a multiple of 16
uint scale_place(uint rows, uint k, uint row, uint e) { return rows * k / 4 + (row * k + e) / ACTIVATION_BLOCK; }
uint square_place(uint rows, uint k, uint row, uint e) {
  return rows * k / 4 + rows * k / ACTIVATION_BLOCK + (row * k + e) / ACTIVATION_BLOCK;
}

struct ActivationScale {
  float scale;    // NaN if a value is infinite or NaN
  float inverse;  // 0 if all quants are 0
};

// @param most the largest magnitude
ActivationScale activation_scale(float most) {
  bool finite = !m_isnan(most) && !m_isinf(most);
  float scale = most / 127.0, inverse = 1.0 / scale;
  // Numbers so small that 1 / scale overflows become 0.
  bool zero = !finite || scale == 0.0 || m_isinf(inverse);
  return ActivationScale(finite ? scale : uintBitsToFloat(0x7fc00000u), zero ? 0.0 : inverse);
}

// Four quants, the first in the lowest byte.
uint quantize_four(vec4 values, ActivationScale scale) {
  if (scale.inverse == 0.0) return 0;
  uvec4 c = uvec4(ivec4(roundEven(values * scale.inverse))) & 0xffu;
  return c.x | c.y << 8 | c.z << 16 | c.w << 24;
}

#endif
