#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
// quantized_linear for up to eight rows of x, like quantized_linear.comp, for devices with integer dot products: x is
// quantized to bytes, 16 elements to a scale (lib/rounding.glsl). Dot products of four bytes replace converting each
// quant to a float, which takes longer than loading the weights from memory.
//
// A dispatch that only quantizes, with its barrier, takes as long as a small GEMV. So with EMITS, the kernel quantizes
// its own results for the next matmul: a workgroup then owns 16 columns of y, in sets of threads. Lost: quantizing x in
// each workgroup that reads it (0.86 to 0.55 of the tokens per second), both in shared memory and in registers.
//
// variant: quantized_dot

#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#define SUBGROUPS
#include "few_rows.glsl"

layout(constant_id = 21) const uint EMITS = 0;             // results are also quantized
layout(constant_id = 22) const uint NEXT_NORM_DTYPE = 99;  // of p.norm, the weight that multiplies them first

layout(constant_id = 23) const uint WORDS = 0;             // rows of all weights are aligned to four bytes

const uint OWN = WEIGHTS * ROWS;  // rows of weights in a set
#include "unit_products.glsl"

// Results to be quantized: one block for each row of x, as vec4s.
const uint QUADS = ACTIVATION_BLOCK / 4;
shared vec4 emitted[EMITS != 0 ? X_ROWS * QUADS : 1];
shared vec4 emitted_squares[EMITS != 0 ? X_ROWS * QUADS : 1];

// Adds this thread's part of the dot products of one unit and the workgroup's rows.
void add_unit(uint format, BlockRow rows[OWN], uint unit, float tails[2]) {
  PackedUnit k[OWN];
  [[unroll]] for (uint r = 0; r < OWN; ++r) k[r] = decode_unit(format, rows[r], unit, tails[r / ROWS], WORDS != 0);
  [[unroll]] for (uint m = 0; m < X_ROWS; ++m) {
    QuantizedX x = quantized_x(format, p.x, p.x_rows, p.k, min(m, p.x_rows - 1), unit_first(format, unit));
    [[unroll]] for (uint g = 0; g < unit_groups(format); ++g) {
      float terms[OWN];
      group_products(format, k, x, g, terms);
      [[unroll]] for (uint r = 0; r < OWN; ++r) sums[r / ROWS * X_ROWS * ROWS + m * ROWS + r % ROWS] += terms[r];
    }
  }
}

// Adds this thread's part of the dot products with the workgroup's rows of one weight, or of two with the same format.
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

// Sums of squares of x for the norm's factor, as vec4s: this thread's first ones of each row, loaded while the dot
// products are computed.
const uint SQUARES = 2;
vec4 first_squares[NORM ? X_ROWS * SQUARES : 1];

uint square_quads() { return p.k / (4 * ACTIVATION_BLOCK); }

vec4 load_squares(uint m, uint quad) {
  uint place = square_place(p.x_rows, p.k, min(m, p.x_rows - 1), 0);
  return uintBitsToFloat(BufferQuads(p.x).v[place / 4 + min(quad, square_quads() - 1)]);
}

void load_first_squares() {
  [[unroll]] for (uint i = 0; i < (NORM ? X_ROWS * SQUARES : 0); ++i)
    first_squares[i] = load_squares(i / SQUARES, set_thread() + i % SQUARES * SET_THREADS);
}

void add_squares() {
  [[unroll]] for (uint m = 0; m < (NORM ? X_ROWS : 0); ++m) {
    uint quad = set_thread();
    [[unroll]] for (uint i = 0; i < SQUARES; ++i, quad += SET_THREADS) {
      vec4 four = first_squares[NORM ? m * SQUARES + i : 0];
      sums[SUMS + m] += quad < square_quads() ? (four.x + four.y) + (four.z + four.w) : 0.0;
    }
    for (; quad < square_quads(); quad += SET_THREADS) {
      vec4 four = load_squares(m, quad);
      sums[SUMS + m] += (four.x + four.y) + (four.z + four.w);
    }
  }
}

// The next norm's weight for a thread's own result.
float load_next_norm(Part part) {
  uint own = set_thread();
  if (EMITS == 0 || NEXT_NORM_DTYPE == 99 || own >= X_ROWS * ROWS) return 1.0;
  return load_float(p.norm, part.from + part.row + own % ROWS, NEXT_NORM_DTYPE);
}

// Quantizes the workgroup's columns of y. @param result this thread's own, if it has one
void emit_quantized(Part part, float result, float next_norm) {
  uint own = set_thread(), m = own / ROWS, thread = gl_LocalInvocationID.x;
  if (own < X_ROWS * ROWS) {
    uint at = m * ACTIVATION_BLOCK + set_index() * ROWS + own % ROWS;
    emitted[at / 4][at % 4] = result * next_norm;
    emitted_squares[at / 4][at % 4] = result * result;
  }
  barrier();
  uint row = thread / QUADS, quad = thread % QUADS, first = row * QUADS;
  if (row >= p.x_rows) return;
  float most = 0.0;
  [[unroll]] for (uint i = 0; i < QUADS; ++i) {
    vec4 a = abs(emitted[first + i]);
    most = m_max(most, m_max(m_max(a.x, a.y), m_max(a.z, a.w)));
  }
  ActivationScale scale = activation_scale(most);
  uint column = part.from + part.row / ACTIVATION_BLOCK * ACTIVATION_BLOCK;
  uint quants = quantize_four(emitted[first + quad], scale);
  BufferI32(p.quantized).v[(row * part.columns + column) / 4 + quad] = int(quants);
  if (quad != 0) return;
  vec4 squares = vec4(0.0);
  [[unroll]] for (uint i = 0; i < QUADS; ++i) squares += emitted_squares[first + i];
  float total = (squares.x + squares.y) + (squares.z + squares.w);
  BufferF32(p.quantized).v[scale_place(p.x_rows, part.columns, row, column)] = scale.scale;
  BufferF32(p.quantized).v[square_place(p.x_rows, part.columns, row, column)] = total;
}

void main() {
  if (any_has_levels()) fill_level_table();
  grid_points = p.points;
  Part part;
  if (!find_part(part)) return;
  Addends addends = load_addends(part, set_thread());
  float next_norm = load_next_norm(part);
  load_first_squares();
  [[unroll]] for (uint v = 0; v < VALUES; ++v) sums[v] = 0.0;
  if (GATE != 0) {
    add_products(FORMAT_0, ALIGNED_0, p.w0, p.w1, p.n0, p.bytes0, part.row);
  } else if (SAME_FORMATS) {
    uvec2 w = weight_at(part.weight);
    add_products(FORMAT_0, ALIGNED_0, w, w, part.n, p.bytes0, part.row);
  } else if (part.weight == 0) {
    add_products(FORMAT_0, ALIGNED_0, p.w0, p.w0, part.n, p.bytes0, part.row);
  } else if (part.weight == 1) {
    add_products(FORMAT_1, ALIGNED_1, p.w1, p.w1, part.n, p.bytes1, part.row);
  } else if (part.weight == 2) {
    add_products(FORMAT_2, ALIGNED_2, p.w2, p.w2, part.n, p.bytes2, part.row);
  } else {
    add_products(FORMAT_3, ALIGNED_3, p.w3, p.w3, part.n, p.bytes3, part.row);
  }
  add_squares();
  float result = finish(part, addends);
  if (EMITS != 0) emit_quantized(part, result, next_norm);
}
