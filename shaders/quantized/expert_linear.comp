#version 460
#extension GL_GOOGLE_include_directive : require
// Matmuls with the weights of chosen experts, in any block format. Bytes-bound while a model generates: each choice
// reads its expert's matrix once. A workgroup computes ROWS rows of one choice, so that a step of a few tokens fills
// the device; its threads split k into chunks of sixteen elements (lib/quant_blocks.glsl). Choices of a long prompt
// that share an expert read its weights from the cache at best. Sums are f32, and those of threads are added in order.
//
// variant: expert_linear

#extension GL_EXT_control_flow_attributes : require
#include "index.glsl"
#include "quant_blocks.glsl"

const uint THREADS = 64, ROWS = 4;
layout(local_size_x = THREADS) in;
layout(constant_id = 0) const uint FORMAT = 0;
layout(constant_id = 1) const uint ALIGNED = 1;  // alignment of every block in bytes
layout(constant_id = 2) const uint DTYPE = 1;    // of x and y
layout(constant_id = 3) const uint WIDTH = 1;    // of loads of x: 4 or 1
layout(constant_id = 4) const uint INDEX_DTYPE = 4;

layout(push_constant, scalar) uniform Push {
  uvec2 x, w, expert, index_errors, y;
  uint choices, rows, k, row_bytes, experts, shared_by;  // shared_by: choices of one row of x
} p;

shared float partial[ROWS][THREADS];

void main() {
  if (has_levels(FORMAT)) fill_level_table();
  uint groups = (p.rows + ROWS - 1) / ROWS;
  uint group = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
  uint choice = group / groups, first_row = group % groups * ROWS, thread = gl_LocalInvocationID.x;
  if (choice >= p.choices) return;
  uvec2 errors = first_row == 0 && thread == 0 ? p.index_errors : uvec2(0);
  uint expert = load_index(p.expert, choice, INDEX_DTYPE, p.experts, errors);
  uvec2 w = address_of(p.w, expert * p.rows, p.row_bytes);
  BlockRow rows[ROWS];
  [[unroll]] for (uint r = 0; r < ROWS; ++r)
    rows[r] = block_row(w, min(first_row + r, p.rows - 1), p.row_bytes, ALIGNED);
  uint base = choice / p.shared_by * p.k, chunks = (p.k + 15) / 16;
  float sums[ROWS];
  [[unroll]] for (uint r = 0; r < ROWS; ++r) sums[r] = 0.0;
  for (uint c = thread; c < chunks; c += THREADS) {
    uint first = chunk_first(FORMAT, c);
    vec4 x[4], x_sums = vec4(0.0);
    [[unroll]] for (uint i = 0; i < 4; ++i) {
      uint e = quad_at(FORMAT, first, i), count = e < p.k ? min(4u, p.k - e) : 0;
      x[i] = load_vector(p.x, base + e, count, DTYPE, WIDTH);
      if (has_minimum(FORMAT)) x_sums[i] = (x[i].x + x[i].y) + (x[i].z + x[i].w);
    }
    [[unroll]] for (uint r = 0; r < ROWS; ++r) {
      Chunk chunk = decode_chunk(FORMAT, rows[r], c, p.k, 1.0);
      vec4 products = vec4(dot(chunk.quants[0], x[0]), dot(chunk.quants[1], x[1]), dot(chunk.quants[2], x[2]),
                           dot(chunk.quants[3], x[3]));
      float sum;
      if (is_unquantized(FORMAT)) sum = (products.x + products.y) + (products.z + products.w);
      else sum = dot(chunk.scale, products);
      if (has_minimum(FORMAT)) sum -= dot(chunk.least, x_sums);
      sums[r] += sum;
    }
  }
  [[unroll]] for (uint r = 0; r < ROWS; ++r) partial[r][thread] = sums[r];
  barrier();
  for (uint apart = THREADS / 2; apart >= ROWS; apart /= 2) {
    if (thread < apart) {
      [[unroll]] for (uint r = 0; r < ROWS; ++r) partial[r][thread] += partial[r][thread + apart];
    }
    barrier();
  }
  if (thread >= ROWS || first_row + thread >= p.rows) return;
  float sum = 0.0;
  [[unroll]] for (uint i = 0; i < ROWS; ++i) sum += partial[thread][i];
  store_float(p.y, choice * p.rows + first_row + thread, DTYPE, sum);
}
