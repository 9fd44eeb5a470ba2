#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
// quantized_linear for up to eight rows of x, as quantized_linear.comp, where the device multiplies bytes: x is rounded
// to bytes, 32 to a scale (lib/rounding.glsl). Dot products of four bytes replace the conversion of each code to a
// float, which takes longer than the weights' way from memory.
//
// A dispatch that only rounds, and its barrier, take as long as a small product. So with EMITS a product rounds its own
// results for the next one: a workgroup then owns 32 columns of y, in sets of threads. Lost: rounding x in each
// workgroup that reads it (0.86 to 0.55 of the tokens a second), in shared memory as in registers.
//
// variant: quantized_dot

#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#extension GL_EXT_spirv_intrinsics : require
#define SUBGROUPS
#include "few_rows.glsl"
#include "quant_units.glsl"
#include "rounding.glsl"

// SPV_KHR_integer_dot_product: OpSDot of two u32s that hold four i8 each (format 0).
spirv_instruction(extensions = ["SPV_KHR_integer_dot_product"], capabilities = [6018, 6019], id = 4450)
int packed_dot(int a, int b, spirv_literal int format);

int dot4(uint a, uint b) { return packed_dot(int(a), int(b), 0); }

layout(constant_id = 18) const uint EMITS = 0;             // results are rounded, too
layout(constant_id = 19) const uint NEXT_NORM_DTYPE = 99;  // of p.norm, whose weight multiplies them first

const uint OWN = WEIGHTS * ROWS;  // rows of weights in a set

// Results on their way to be rounded, 32 of each row of x.
shared float emitted[EMITS != 0 ? X_ROWS * 32 : 1];
shared float emitted_squares[EMITS != 0 ? X_ROWS * 32 : 1];

// The bytes of x that a unit's codes meet, and the scale of each group.
struct Rounded {
  uint codes[16];
  float scales[4];
};

Rounded rounded_x(uint format, uint row, uint first) {
  Rounded x;
  const uint groups = unit_groups(format), words = 16 / groups;
  [[unroll]] for (uint g = 0; g < groups; ++g) {
    uint at = row * p.k + first + 32 * g;
    [[unroll]] for (uint i = 0; i < words; i += 4) {
      uvec4 four = BufferQuads(p.x).v[at / 16 + i / 4];
      [[unroll]] for (uint j = 0; j < 4; ++j) x.codes[g * words + i + j] = four[j];
    }
    x.scales[g] = BufferF32(p.x).v[scale_place(p.x_rows, p.k, row, first + 32 * g)];
  }
  return x;
}

// Adds this thread's part of the dot products of one unit with the workgroup's rows.
void add_unit(uint format, BlockRow rows[OWN], uint unit, float tails[2]) {
  const uint groups = unit_groups(format), words = 16 / groups, offset = code_offset(format);
  PackedUnit k[OWN];
  [[unroll]] for (uint r = 0; r < OWN; ++r) k[r] = decode_unit(format, rows[r], unit, tails[r / ROWS]);
  [[unroll]] for (uint m = 0; m < X_ROWS; ++m) {
    Rounded x = rounded_x(format, min(m, p.x_rows - 1), unit_first(format, unit));
    [[unroll]] for (uint g = 0; g < groups; ++g) {
      int x_sum = 0;
      if (offset != 0 || has_minimum(format)) {
        [[unroll]] for (uint i = 0; i < words; ++i) x_sum += dot4(x.codes[g * words + i], 0x01010101u);
      }
      [[unroll]] for (uint r = 0; r < OWN; ++r) {
        int d = -int(offset) * x_sum;
        [[unroll]] for (uint i = 0; i < words; ++i) d += dot4(k[r].codes[g * words + i], x.codes[g * words + i]);
        float term = k[r].scale[g] * float(d);
        if (has_minimum(format)) term -= k[r].least[g] * float(x_sum);
        sums[r / ROWS * X_ROWS * ROWS + m * ROWS + r % ROWS] += x.scales[g] * term;
      }
    }
  }
}

// Adds this thread's part of the dot products with the workgroup's rows of a weight, or of two of one format.
void add_products(uint format, uint aligned, uvec2 w, uvec2 second, uint n, uint row_bytes, uint row) {
  float tails[2];
  tails[0] = tail_scale(format, address_of(w, n, row_bytes));
  tails[1] = GATE != 0 ? tail_scale(format, address_of(second, n, row_bytes)) : 0.0;
  uint units = p.k / 64;
  BlockRow rows[OWN];
  [[unroll]] for (uint r = 0; r < OWN; ++r)
    rows[r] = block_row(r < ROWS ? w : second, min(row + r % ROWS, n - 1), row_bytes, aligned);
  for (uint own = set_thread(); own < units; own += SET_THREADS) add_unit(format, rows, own, tails);
}

// What the norm's factor needs.
void add_squares() {
  [[unroll]] for (uint m = 0; m < (NORM ? X_ROWS : 0); ++m) {
    for (uint b = set_thread(); b < p.k / 32; b += SET_THREADS)
      sums[SUMS + m] += BufferF32(p.x).v[square_place(p.x_rows, p.k, min(m, p.x_rows - 1), b * 32)];
  }
}

// Rounds the workgroup's 32 columns of y. @param result this thread's own, if it has one
void emit_rounded(Part part, float result) {
  uint own = set_thread(), m = own / ROWS, thread = gl_LocalInvocationID.x;
  if (own < X_ROWS * ROWS) {
    uint at = m * 32 + set_index() * ROWS + own % ROWS, column = part.from + part.row + own % ROWS;
    float factor = NEXT_NORM_DTYPE != 99 ? load_float(p.norm, column, NEXT_NORM_DTYPE) : 1.0;
    emitted[at] = result * factor;
    emitted_squares[at] = result * result;
  }
  barrier();
  uint row = thread / 8, quad = thread % 8, first = row * 32;
  if (row >= p.x_rows) return;
  float most = 0.0;
  for (uint i = 0; i < 32; ++i) most = m_max(most, abs(emitted[first + i]));
  RoundingScale scale = rounding_scale(most);
  uint at = first + quad * 4, column = part.from + part.row / 32 * 32;
  vec4 values = vec4(emitted[at], emitted[at + 1], emitted[at + 2], emitted[at + 3]);
  BufferI32(p.rounded).v[(row * part.columns + column) / 4 + quad] = int(rounded_codes(values, scale));
  if (quad != 0) return;
  float squares = 0.0;
  for (uint i = 0; i < 32; ++i) squares += emitted_squares[first + i];
  BufferF32(p.rounded).v[scale_place(p.x_rows, part.columns, row, column)] = scale.scale;
  BufferF32(p.rounded).v[square_place(p.x_rows, part.columns, row, column)] = squares;
}

void main() {
  if (has_levels(FORMAT_0) || has_levels(FORMAT_1) || has_levels(FORMAT_2)) fill_level_table();
  Part part;
  if (!find_part(part)) return;
  Addends addends = load_addends(part, set_thread());
  [[unroll]] for (uint v = 0; v < VALUES; ++v) sums[v] = 0.0;
  if (GATE != 0) {
    add_products(FORMAT_0, ALIGNED_0, p.w0, p.w1, p.n0, p.bytes0, part.row);
  } else if (SAME_FORMATS) {
    uvec2 w = part.weight == 0 ? p.w0 : part.weight == 1 ? p.w1 : p.w2;
    add_products(FORMAT_0, ALIGNED_0, w, w, part.n, p.bytes0, part.row);
  } else if (part.weight == 0) {
    add_products(FORMAT_0, ALIGNED_0, p.w0, p.w0, part.n, p.bytes0, part.row);
  } else if (part.weight == 1) {
    add_products(FORMAT_1, ALIGNED_1, p.w1, p.w1, part.n, p.bytes1, part.row);
  } else {
    add_products(FORMAT_2, ALIGNED_2, p.w2, p.w2, part.n, p.bytes2, part.row);
  }
  add_squares();
  float result = finish(part, addends);
  if (EMITS != 0) emit_rounded(part, result);
}
