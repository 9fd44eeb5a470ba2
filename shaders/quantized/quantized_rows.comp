#version 460
#extension GL_GOOGLE_include_directive : require
// Decodes the rows of a matrix in a block format to floats: all of them, or those that an index selects. Bytes-bound: a
// thread decodes sixteen elements (lib/quant_blocks.glsl) and stores them as four vectors. Bit-identical to the CPU's
// decoders: nothing is contracted, and products that may be subnormal are computed with integers.
//
// variant: quantized_rows

#extension GL_EXT_control_flow_attributes : require
#include "index.glsl"
#include "quant_blocks.glsl"

layout(local_size_x = 128) in;
layout(constant_id = 0) const uint FORMAT = 0;
layout(constant_id = 1) const uint ALIGNED = 1;  // alignment of every block in bytes
layout(constant_id = 2) const uint DTYPE = 1;
layout(constant_id = 3) const uint WIDTH = 1;        // of stores: 4, 2 or 1, or 8 for f16 and bf16
layout(constant_id = 4) const uint INDEX_DTYPE = 4;  // 99: all rows, no index

layout(push_constant, scalar) uniform Push {
  uvec2 blocks, y, index, index_errors, tail, points;
  uint rows, columns, row_bytes, row_size, limit;  // row_size: bytes of a row of y
} p;

// quant * 2^(e - 128), exact even if the device flushes subnormal numbers to zero.
float micro_value(float code, float scale) {
  uint bits = floatBitsToUint(scale), e = bits < 0x00800000u ? bits >> 22 : (bits >> 23) + 1u;
  if (e > 3) return code * scale;
  // In units of 2^-149, a u32 below 2^24 is the bit pattern of the number.
  uint units = uint(abs(code)) << (21u + e), sign = code < 0.0 ? 0x80000000u : 0u;
  uint shift = 0;
  for (; units >= 0x1000000u; units >>= 1) ++shift;
  return uintBitsToFloat(sign | (units + (shift << 23)));
}

void main() {
  if (has_levels(FORMAT)) fill_level_table();
  grid_points = p.points;
  uint chunks = (p.columns + 15) / 16;
  uint thread = (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * 128 + gl_LocalInvocationID.x;
  uint target = thread / chunks, c = thread % chunks, row = target;
  if (target >= p.rows) return;
  if (INDEX_DTYPE != 99) row = load_index(p.index, target, INDEX_DTYPE, p.limit, c == 0 ? p.index_errors : uvec2(0));
  float tail = tail_scale(FORMAT, p.tail);
  Chunk k = decode_chunk(FORMAT, block_row(p.blocks, row, p.row_bytes, ALIGNED), c, p.columns, tail);
  uvec2 y = address_of(p.y, target, p.row_size);
  uint first = chunk_first(FORMAT, c);
  bool pairs = WIDTH == 8 && quad_distances(FORMAT).x == 4;
  vec4 values[4];
  [[unroll]] for (uint i = 0; i < 4; ++i) {
    vec4 v = k.quants[i];
    if (FORMAT == MXFP4) {
      [[unroll]] for (uint j = 0; j < 4; ++j) v[j] = micro_value(v[j], k.scale[i]);
    } else if (FORMAT == I2_S) {
      [[unroll]] for (uint j = 0; j < 4; ++j) {
        uint sign = v[j] < 0.0 ? 0x80000000u : 0u;
        v[j] = abs(v[j]) == 1.0 ? uintBitsToFloat(floatBitsToUint(tail) ^ sign) : v[j] * tail;
      }
    } else if (!is_unquantized(FORMAT)) {
      precise vec4 product = k.scale[i] * v;
      precise vec4 value = has_minimum(FORMAT) ? product - k.least[i] : product;
      v = value;
    }
    values[i] = v;
  }
  // Two adjacent quads fill half of a 32-byte sector at once.
  if (pairs) {
    [[unroll]] for (uint i = 0; i < 4; i += 2) {
      uint e = quad_at(FORMAT, first, i);
      vec4 a = values[i], b = values[i + 1];
      uvec4 words = uvec4(narrow_pair(a.xy, DTYPE), narrow_pair(a.zw, DTYPE), narrow_pair(b.xy, DTYPE),
                          narrow_pair(b.zw, DTYPE));
      if (e < p.columns) BufferQuads(y).v[e / 8] = words;
    }
    return;
  }
  [[unroll]] for (uint i = 0; i < 4; ++i) {
    uint e = quad_at(FORMAT, first, i), count = e < p.columns ? min(4u, p.columns - e) : 0;
    store_vector(y, e, count, DTYPE, min(WIDTH, 4u), values[i]);
  }
}
