#version 460
#extension GL_GOOGLE_include_directive : require
// Matmuls with the weights of chosen experts, in any block format. Threads split k into chunks of sixteen elements
// (lib/quant_blocks.glsl), and load CHUNKS of them before they multiply the first. Sums are f32: within a subgroup by
// its own instruction, of subgroups in order, so that every run gives the same bits.
//
// Choice by choice, for few rows, bytes-bound: each choice reads its expert's matrix once, and a workgroup computes
// ROWS rows of one choice, so that a step of a few tokens fills the device. GATED also multiplies with a second matrix,
// and writes act(first) ⊙ second. COMBINED computes the sum over a row's choices, times their factors; a thread works
// on one choice, so that the loads of its chunks do not wait for the number of an expert.
//
// SORTED, for many rows on devices without matrix units: the rows of an expert lie together (expert_rows.comp), and a
// workgroup decodes a chunk of weights once for eight of them.
//
// variant: expert_linear THREADS=64 ROWS=4 TILE=1 CHUNKS=1
// variant: expert_gate THREADS=64 ROWS=2 TILE=1 CHUNKS=2 GATED
// variant: expert_sum THREADS=128 ROWS=2 TILE=1 CHUNKS=2 COMBINED
// variant: expert_linear_sorted THREADS=64 ROWS=2 TILE=8 CHUNKS=1 SORTED
// variant: expert_gate_sorted THREADS=64 ROWS=2 TILE=8 CHUNKS=1 SORTED GATED

#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#include "epilogue.glsl"
#include "index.glsl"
#include "quant_blocks.glsl"

#ifdef GATED
const uint WEIGHTS = 2;
#else
const uint WEIGHTS = 1;
#endif
const uint SUMS = WEIGHTS * ROWS * TILE;
layout(local_size_x = THREADS) in;
layout(constant_id = 0) const uint FORMAT = 0;
layout(constant_id = 1) const uint ALIGNED = 1;  // alignment of every block in bytes
layout(constant_id = 2) const uint DTYPE = 1;    // of x
layout(constant_id = 3) const uint WIDTH = 1;    // of loads of x: 4 or 1
layout(constant_id = 4) const uint INDEX_DTYPE = 4;
layout(constant_id = 5) const uint Y_DTYPE = 1;
layout(constant_id = 6) const uint ACTIVATION = 0;    // GATED: etna::Activation
layout(constant_id = 7) const uint FACTOR_DTYPE = 1;  // COMBINED

// choices: of all rows, or tiles of sorted rows; with COMBINED, rows. expert: of each. shared_by: choices of one row.
layout(push_constant, scalar) uniform Push {
  uvec2 x, w, second, expert, factor, index_errors, y, points;
  uint choices, rows, k, row_bytes, experts, shared_by;
} p;

shared float partial[SUMS][THREADS];
float sums[SUMS];

// The weights' rows of a workgroup in one matrix.
void rows_of(uvec2 matrices, uint expert, uint first_row, out BlockRow rows[ROWS]) {
  uvec2 w = address_of(matrices, expert * p.rows, p.row_bytes);
  [[unroll]] for (uint r = 0; r < ROWS; ++r)
    rows[r] = block_row(w, min(first_row + r, p.rows - 1), p.row_bytes, ALIGNED);
}

float product(Chunk chunk, vec4 x[4], vec4 x_sums) {
  vec4 products = vec4(dot(chunk.quants[0], x[0]), dot(chunk.quants[1], x[1]), dot(chunk.quants[2], x[2]),
                       dot(chunk.quants[3], x[3]));
  if (is_unquantized(FORMAT)) return (products.x + products.y) + (products.z + products.w);
  float sum = dot(chunk.scale, products);
  if (!has_minimum(FORMAT)) return sum;
  sum -= dot(chunk.least, x_sums);
  // The sum above turns an infinite x into infinities of both signs, but its product with a weight has one sign.
  if (m_isnan(sum)) {
    sum = 0.0;
    for (uint i = 0; i < 4; ++i) sum += dot(chunk.scale[i] * chunk.quants[i] - chunk.least[i], x[i]);
  }
  return sum;
}

// Adds the products with an expert's rows, of every `step`-th chunk from `begin` on. @param base of x's first row
void add_products(uint expert, uint first_row, uint base, uint begin, uint step, float factor) {
  BlockRow rows[WEIGHTS][ROWS];
  rows_of(p.w, expert, first_row, rows[0]);
#ifdef GATED
  rows_of(p.second, expert, first_row, rows[1]);
#endif
  uint chunks = (p.k + 15) / 16;
  for (uint round = begin; round < chunks; round += step * CHUNKS) {
    Chunk chunk[CHUNKS][WEIGHTS * ROWS];
    [[unroll]] for (uint u = 0; u < CHUNKS; ++u) {
      [[unroll]] for (uint w = 0; w < WEIGHTS * ROWS; ++w)
        chunk[u][w] = decode_chunk(FORMAT, rows[w / ROWS][w % ROWS], min(round + u * step, chunks - 1), p.k, 1.0);
    }
    [[unroll]] for (uint u = 0; u < CHUNKS; ++u) {
      bool there = round + u * step < chunks;
      uint at = chunk_first(FORMAT, min(round + u * step, chunks - 1));
      [[unroll]] for (uint t = 0; t < TILE; ++t) {
        vec4 x[4], x_sums = vec4(0.0);
        [[unroll]] for (uint q = 0; q < 4; ++q) {
          uint e = quad_at(FORMAT, at, q), count = e < p.k ? min(4u, p.k - e) : 0;
          x[q] = load_vector(p.x, base + t * p.k + e, count, DTYPE, WIDTH);
          if (has_minimum(FORMAT)) x_sums[q] = (x[q].x + x[q].y) + (x[q].z + x[q].w);
        }
        [[unroll]] for (uint w = 0; w < WEIGHTS * ROWS; ++w) {
          float sum = product(chunk[u][w], x, x_sums);
          sums[(w / ROWS * TILE + t) * ROWS + w % ROWS] += there ? factor * sum : 0.0;
        }
      }
    }
  }
}

void main() {
  if (has_levels(FORMAT)) fill_level_table();
  grid_points = p.points;
  uint groups = (p.rows + ROWS - 1) / ROWS;
  uint group = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
  uint choice = group / groups, first_row = group % groups * ROWS, thread = gl_LocalInvocationID.x;
  if (choice >= p.choices) return;
  uvec2 errors = first_row == 0 ? p.index_errors : uvec2(0);
  [[unroll]] for (uint s = 0; s < SUMS; ++s) sums[s] = 0.0;
#ifdef SORTED
  int expert = BufferI32(p.expert).v[choice];
  if (expert < 0) return;
  add_products(uint(expert), first_row, choice * TILE * p.k, thread, THREADS, 1.0);
#elif defined(COMBINED)
  uint each = max(1u, THREADS / p.shared_by);  // threads of a choice
  for (uint c = thread / each; c < p.shared_by; c += THREADS / each) {
    uint own = choice * p.shared_by + c, expert = load_index(p.expert, own, INDEX_DTYPE, p.experts, errors);
    add_products(expert, first_row, own * p.k, thread % each, each, load_float(p.factor, own, FACTOR_DTYPE));
  }
#else
  uint expert = load_index(p.expert, choice, INDEX_DTYPE, p.experts, errors);
  add_products(expert, first_row, choice / p.shared_by * p.k, thread, THREADS, 1.0);
#endif
  [[unroll]] for (uint s = 0; s < SUMS; ++s) {
    float sum = subgroupAdd(sums[s]);
    if (subgroupElect()) partial[s][gl_SubgroupID] = sum;
  }
  barrier();
  uint row = first_row + thread % ROWS;
  if (thread >= ROWS * TILE || row >= p.rows) return;
  float y = 0.0, gated = 0.0;
  for (uint i = 0; i < gl_NumSubgroups; ++i) {
    y += partial[thread][i];
#ifdef GATED
    gated += partial[ROWS * TILE + thread][i];
#endif
  }
#ifdef GATED
  y = activated(y, ACTIVATION) * gated;
#endif
  store_float(p.y, (choice * TILE + thread / ROWS) * p.rows + row, Y_DTYPE, y);
}
