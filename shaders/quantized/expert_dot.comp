#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
// The products of expert_linear.comp for few rows in block formats, for devices with integer dot products: x is
// quantized to bytes, 16 elements to a scale (lib/rounding.glsl), as for quantized_dot.comp. Sets of threads split k in
// units of 64 elements, and own ROWS rows of an expert.
//
// GATED writes act(first) ⊙ second in bytes for COMBINED, without a dispatch in between: its workgroups own the
// columns that share a scale. COMBINED computes the sum over a row's choices, times their factors, and a residual.
//
// variant: expert_linear_dot
// variant: expert_gate_dot GATED
// variant: expert_sum_dot COMBINED

#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#include "epilogue.glsl"
#include "index.glsl"

#ifdef GATED
const uint WEIGHTS = 2;
#else
const uint WEIGHTS = 1;
#endif
layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint THREADS = 64;
layout(constant_id = 1) const uint ROWS = 2;  // of a matrix, for a set
layout(constant_id = 2) const uint SETS = 1;  // whole subgroups; with GATED, SETS * ROWS is ACTIVATION_BLOCK
layout(constant_id = 3) const uint FORMAT = 0;
layout(constant_id = 4) const uint ALIGNED = 1;  // alignment of every block in bytes
layout(constant_id = 5) const uint WORDS = 0;    // rows are aligned to four bytes
layout(constant_id = 6) const uint INDEX_DTYPE = 4;
layout(constant_id = 7) const uint Y_DTYPE = 1;
layout(constant_id = 8) const uint ACTIVATION = 0;    // GATED: etna::Activation
layout(constant_id = 9) const uint FACTOR_DTYPE = 1;  // COMBINED
layout(constant_id = 10) const uint RESIDUAL_DTYPE = 99;  // COMBINED; 99: there is none
const uint OWN = WEIGHTS * ROWS, SET_THREADS = THREADS / SETS, GROUP_ROWS = ROWS * SETS;
#include "unit_products.glsl"

// choices: of all rows; with COMBINED, rows. expert: of each. shared_by: choices of one row. x_rows: of x
layout(push_constant, scalar) uniform Push {
  uvec2 x, w, second, expert, factor, residual, index_errors, y, points;
  uint choices, rows, k, row_bytes, experts, shared_by, x_rows;
} p;

float sums[OWN];
shared float partial[OWN * THREADS / 4];  // of each subgroup, which has four threads at least
#ifdef GATED
shared vec4 emitted[ACTIVATION_BLOCK / 4];
#endif

// Adds the products with one unit of an expert's rows.
void add_unit(uint expert, uint first_row, uint unit, uint x_row, float factor) {
  PackedUnit k[OWN];
  [[unroll]] for (uint i = 0; i < OWN; ++i) {
    uvec2 w = address_of(i < ROWS ? p.w : p.second, expert * p.rows, p.row_bytes);
    BlockRow row = block_row(w, min(first_row + i % ROWS, p.rows - 1), p.row_bytes, ALIGNED);
    k[i] = decode_unit(FORMAT, row, unit, 0.0, WORDS != 0);
  }
  QuantizedX x = quantized_x(FORMAT, p.x, p.x_rows, p.k, x_row, unit_first(FORMAT, unit));
  [[unroll]] for (uint g = 0; g < unit_groups(FORMAT); ++g) {
    float terms[OWN];
    group_products(FORMAT, k, x, g, terms);
    [[unroll]] for (uint i = 0; i < OWN; ++i) sums[i] += factor * terms[i];
  }
}

#ifdef GATED
// Quantizes the workgroup's columns of y. @param value of this thread's column, if it has one
void emit(uint choice, uint column, uint place, bool has_column, float value) {
  if (has_column) emitted[place / 4][place % 4] = value;
  barrier();
  uint quad = gl_LocalInvocationID.x;
  if (quad >= ACTIVATION_BLOCK / 4) return;
  float most = 0.0;
  [[unroll]] for (uint i = 0; i < ACTIVATION_BLOCK / 4; ++i) {
    vec4 a = abs(emitted[i]);
    most = m_max(most, m_max(m_max(a.x, a.y), m_max(a.z, a.w)));
  }
  ActivationScale scale = activation_scale(most);
  BufferI32(p.y).v[(choice * p.rows + column) / 4 + quad] = int(quantize_four(emitted[quad], scale));
  if (quad == 0) BufferF32(p.y).v[scale_place(p.choices, p.rows, choice, column)] = scale.scale;
}
#endif

void main() {
  if (has_levels(FORMAT)) fill_level_table();
  grid_points = p.points;
  uint groups = (p.rows + GROUP_ROWS - 1) / GROUP_ROWS;
  uint group = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
  uint choice = group / groups, column = group % groups * GROUP_ROWS;
  if (choice >= p.choices) return;
  uint set = gl_LocalInvocationID.x / SET_THREADS, thread = gl_LocalInvocationID.x % SET_THREADS;
  uint first_row = column + set * ROWS, units = p.k / 64;
  uvec2 errors = column == 0 ? p.index_errors : uvec2(0);
  [[unroll]] for (uint i = 0; i < OWN; ++i) sums[i] = 0.0;
#ifdef COMBINED
  for (uint i = thread; i < p.shared_by * units; i += SET_THREADS) {
    uint own = choice * p.shared_by + i / units, expert = load_index(p.expert, own, INDEX_DTYPE, p.experts, errors);
    add_unit(expert, first_row, i % units, own, load_float(p.factor, own, FACTOR_DTYPE));
  }
#else
  uint expert = load_index(p.expert, choice, INDEX_DTYPE, p.experts, errors);
  for (uint unit = thread; unit < units; unit += SET_THREADS)
    add_unit(expert, first_row, unit, choice / p.shared_by, 1.0);
#endif
  [[unroll]] for (uint i = 0; i < OWN; ++i) {
    float sum = subgroupAdd(sums[i]);
    if (subgroupElect()) partial[i * gl_NumSubgroups + gl_SubgroupID] = sum;
  }
  barrier();
  uint of_set = gl_NumSubgroups / SETS, row = first_row + thread;
  bool has_row = thread < ROWS && row < p.rows;
  float y = 0.0, gated = 0.0;
  for (uint i = 0; i < (has_row ? of_set : 0); ++i) {
    uint from = set * of_set + i;
    y += partial[thread * gl_NumSubgroups + from];
#ifdef GATED
    gated += partial[(ROWS + thread) * gl_NumSubgroups + from];
#endif
  }
#ifdef GATED
  emit(choice, column, set * ROWS + thread, has_row, activated(y, ACTIVATION) * gated);
#else
  if (!has_row) return;
  if (RESIDUAL_DTYPE != 99) y += load_float(p.residual, choice * p.rows + row, RESIDUAL_DTYPE);
  store_float(p.y, choice * p.rows + row, Y_DTYPE, y);
#endif
}
