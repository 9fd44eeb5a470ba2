// Integer dot products of units of weights (quant_units.glsl) and x in bytes (rounding.glsl).
// The including shader defines OWN, the rows of weights that a thread multiplies at once.
#ifndef ETNA_UNIT_PRODUCTS_GLSL
#define ETNA_UNIT_PRODUCTS_GLSL

#extension GL_EXT_spirv_intrinsics : require
#include "quant_units.glsl"
#include "rounding.glsl"

// SPV_KHR_integer_dot_product: OpSDot of two u32s that hold four i8 each (format 0).
spirv_instruction(extensions = ["SPV_KHR_integer_dot_product"], capabilities = [6018, 6019], id = 4450)
int packed_dot(int a, int b, spirv_literal int format);

int dot4(uint a, uint b) { return packed_dot(int(a), int(b), 0); }

// The quants of x that are multiplied with a unit's quants, and the scale of each block of them.
struct QuantizedX {
  uint quants[16];
  vec4 scales;
};

// @param x of `rows` rows of k elements
QuantizedX quantized_x(uint format, uvec2 address, uint rows, uint k, uint row, uint first) {
  QuantizedX x;
  const uint groups = unit_groups(format), words = 16 / groups;
  [[unroll]] for (uint g = 0; g < groups; ++g) {
    uint at = row * k + first + group_distance(format) * g;
    [[unroll]] for (uint i = 0; i < words; i += 4) {
      uvec4 four = BufferQuads(address).v[at / 16 + i / 4];
      [[unroll]] for (uint j = 0; j < 4; ++j) x.quants[g * words + i + j] = four[j];
    }
  }
  uint place = scale_place(rows, k, row, first);
  if (has_short_groups(format)) {
    [[unroll]] for (uint g = 0; g < 4; ++g)
      x.scales[g] = BufferF32(address).v[place + group_distance(format) / 16 * g];
  } else {
    x.scales = uintBitsToFloat(BufferQuads(address).v[place / 4]);
  }
  return x;
}

// The products of one group of a unit's elements.
void group_products(uint format, PackedUnit k[OWN], QuantizedX x, uint g, out float terms[OWN]) {
  const uint blocks = 4 / unit_groups(format), offset = quant_of_zero(format);  // blocks: of x in a group
  float products[OWN], x_sum = 0.0;
  [[unroll]] for (uint r = 0; r < OWN; ++r) products[r] = 0.0;
  [[unroll]] for (uint b = g * blocks; b < g * blocks + blocks; ++b) {
    int quants_sum = 0;
    if (offset != 0 || has_minimum(format)) {
      [[unroll]] for (uint i = 4 * b; i < 4 * b + 4; ++i) quants_sum += dot4(x.quants[i], 0x01010101u);
    }
    if (has_minimum(format)) x_sum += x.scales[b] * float(quants_sum);
    [[unroll]] for (uint r = 0; r < OWN; ++r) {
      int d = -int(offset) * quants_sum;
      [[unroll]] for (uint i = 4 * b; i < 4 * b + 4; ++i) d += dot4(k[r].quants[i], x.quants[i]);
      products[r] += x.scales[b] * float(d);
    }
  }
  [[unroll]] for (uint r = 0; r < OWN; ++r) {
    terms[r] = k[r].scale[g] * products[r];
    if (has_minimum(format)) terms[r] -= k[r].least[g] * x_sum;
  }
}

#endif
