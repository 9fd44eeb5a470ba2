#version 460
#extension GL_GOOGLE_include_directive : require
// Products with the transposed weights of experts, in any block format: the gradients of what frozen weights multiply.
// Arithmetic-bound, in f32. Rows lie together by expert (expert_rows.comp). A workgroup owns 32 rows of one expert and
// 128 columns, which are whole chunks in every format, and decodes 16 rows of the weight at a time: each weight is
// decoded once for 32 rows, and no matrix of weights is in memory. A thread has 4 x 8 results.
//
// variant: expert_transposed

#extension GL_EXT_control_flow_attributes : require
#include "quant_blocks.glsl"
#include "vectors.glsl"

const uint THREADS = 128, TILE = 32, COLUMNS = 128, STEP = 16, CHUNKS = COLUMNS / 16;
layout(local_size_x = THREADS) in;
layout(constant_id = 0) const uint FORMAT = 0;
layout(constant_id = 1) const uint ALIGNED = 1;  // alignment of every block in bytes
layout(constant_id = 2) const uint DTYPE = 1;    // of x
layout(constant_id = 3) const uint WIDTH = 1;    // of loads of x: 4 or 1
layout(constant_id = 4) const uint Y_WIDTH = 1;  // of stores of y: 4 or 1

// x: [tile_count * TILE, rows]; tiles: i32, the expert of each, -1: none; y: f32 [tile_count * TILE, columns]
layout(push_constant, scalar) uniform Push {
  uvec2 x, w, tiles, y, points;
  uint tile_count, rows, columns, row_bytes;
} p;

shared vec4 weights[STEP][COLUMNS / 4], xs[STEP][TILE / 4];

void main() {
  if (has_levels(FORMAT)) fill_level_table();
  grid_points = p.points;
  uint groups = (p.columns + COLUMNS - 1) / COLUMNS;
  uint group = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x, me = gl_LocalInvocationID.x;
  uint tile = group / groups, first_column = group % groups * COLUMNS;
  if (tile >= p.tile_count) return;
  int expert = ETNA_UNIFORM(BufferI32(p.tiles).v[tile]);
  if (expert < 0) return;
  uvec2 w = address_of(p.w, uint(expert) * p.rows, p.row_bytes);
  uint chunks = (p.columns + 15) / 16, chunk = me % CHUNKS, row = me / CHUNKS;
  uint x_row = me / 4, x_quad = me % 4 * 4, x_base = (tile * TILE + x_row) * p.rows;
  uint column = me % 16, own_rows = me / 16;
  vec4 sums[4][2];
  [[unroll]] for (uint r = 0; r < 4; ++r) sums[r][0] = sums[r][1] = vec4(0.0);
  for (uint step = 0; step < p.rows; step += STEP) {
    Chunk k = decode_chunk(FORMAT, block_row(w, min(step + row, p.rows - 1), p.row_bytes, ALIGNED),
                           min(first_column / 16 + chunk, chunks - 1), p.columns, 1.0);
    uint e = step + x_quad, count = e < p.rows ? min(4u, p.rows - e) : 0;
    vec4 x = load_vector(p.x, x_base + e, count, DTYPE, WIDTH);
    barrier();
    [[unroll]] for (uint q = 0; q < 4; ++q) {
      vec4 v = k.scale[q] * k.quants[q];
      if (has_minimum(FORMAT)) v -= k.least[q];
      weights[row][quad_at(FORMAT, chunk_first(FORMAT, chunk), q) / 4] = step + row < p.rows ? v : vec4(0.0);
      xs[x_quad + q][x_row / 4][x_row % 4] = q < count ? x[q] : 0.0;
    }
    barrier();
    [[unroll]] for (uint s = 0; s < STEP; ++s) {
      vec4 a = xs[s][own_rows], b = weights[s][column], c = weights[s][column + 16];
      [[unroll]] for (uint r = 0; r < 4; ++r) {
        sums[r][0] = fma(vec4(a[r]), b, sums[r][0]);
        sums[r][1] = fma(vec4(a[r]), c, sums[r][1]);
      }
    }
  }
  [[unroll]] for (uint i = 0; i < 8; ++i) {
    uint r = i % 4, at = first_column + i / 4 * 64 + column * 4;
    if (at < p.columns) {
      store_vector(p.y, (tile * TILE + own_rows * 4 + r) * p.columns + at, min(4u, p.columns - at), F32, Y_WIDTH,
                   sums[r][i / 4]);
    }
  }
}
