#version 460
#extension GL_GOOGLE_include_directive : require
// x · [w0; w1; w2; w3]ᵀ for up to eight rows of x and weights in block formats (decode of a language model).
// Bytes-bound: each weight is read once. A workgroup owns ROWS adjacent rows of one weight (of both weights with a
// gate); its threads split k into chunks of sixteen elements (lib/quant_blocks.glsl). Several rows per thread reuse the
// elements of x, which in f32 have eight times the bytes of 4-bit quants and come from L1. Scales are applied to sums
// of quant * x, not to every element. With few rows of x, a thread loads two chunks before it multiplies, because the
// number of bytes in flight limits the memory bandwidth.
//
// The norm needs no separate pass: the inverse root mean square is a factor of a row's results, and the threads read
// all elements of x anyway, so they sum the squares as well. Sums are f32: within a subgroup by its own instruction, of
// subgroups in order, so that every run gives the same bits.
//
// variant: quantized_linear SUBGROUPS
// variant: quantized_linear_shared

#ifdef SUBGROUPS
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#endif
#include "few_rows.glsl"

// For f16 and bf16 with aligned rows: a thread reads eight elements at once, so that adjacent threads read adjacent
// bytes, and widens them when it multiplies.
bool is_wide() {
  if (!SAME_FORMATS || ALIGNED_0 < 16) return false;  // as one expression, glslang generates invalid code
  return FORMAT_0 == Q_F16 || FORMAT_0 == Q_BF16;
}
const uint OWN = WEIGHTS * ROWS;

void add_wide_products(uvec2 w, uvec2 second, uint n, uint row) {
  const uint dtype = FORMAT_0 == Q_F16 ? F16 : BF16;
  uvec2 rows[OWN];
  [[unroll]] for (uint r = 0; r < OWN; ++r)
    rows[r] = address_of(r < ROWS ? w : second, min(row + r % ROWS, n - 1), p.bytes0);
  uint eights = p.k / 8;
  for (uint round = gl_LocalInvocationID.x; round < eights; round += THREADS * CHUNKS) {
    uvec4 loaded[CHUNKS * OWN];
    [[unroll]] for (uint u = 0; u < CHUNKS; ++u) {
      uint c = min(round + u * THREADS, eights - 1);
      [[unroll]] for (uint r = 0; r < OWN; ++r) loaded[u * OWN + r] = BufferQuads(rows[r]).v[c];
    }
    // Without branches, so that the loads of all chunks are in flight at once.
    [[unroll]] for (uint u = 0; u < CHUNKS; ++u) {
      bool there = round + u * THREADS < eights;
      uint c = min(round + u * THREADS, eights - 1);
      vec4 g[2];
      if (NORM) {
        [[unroll]] for (uint i = 0; i < 2; ++i) g[i] = load_vector(p.norm, 8 * c + 4 * i, 4, NORM_DTYPE, WIDTH);
      }
      [[unroll]] for (uint m = 0; m < X_ROWS; ++m) {
        uint at = min(m, p.x_rows - 1) * p.k + 8 * c;
        vec4 x[2];
        [[unroll]] for (uint i = 0; i < 2; ++i) {
          x[i] = load_vector(p.x, at + 4 * i, 4, DTYPE, WIDTH);
          if (NORM) {
            sums[SUMS + m] += there ? dot(x[i], x[i]) : 0.0;
            x[i] *= g[i];
          }
        }
        [[unroll]] for (uint r = 0; r < OWN; ++r) {
          uvec4 h = loaded[u * OWN + r];
          vec4 low = vec4(widen_pair(h.x, dtype), widen_pair(h.y, dtype));
          vec4 high = vec4(widen_pair(h.z, dtype), widen_pair(h.w, dtype));
          float sum = dot(low, x[0]) + dot(high, x[1]);
          sums[r / ROWS * X_ROWS * ROWS + m * ROWS + r % ROWS] += there ? sum : 0.0;
        }
      }
    }
  }
}

// Adds this thread's part of the dot products with ROWS rows of a weight from `row` on.
void add_products(uint format, uint aligned, uvec2 w, uint n, uint row_bytes, uint row, uint first_sum, bool squares) {
  BlockRow rows[ROWS];
  [[unroll]] for (uint r = 0; r < ROWS; ++r) rows[r] = block_row(w, min(row + r, n - 1), row_bytes, aligned);
  float tail = tail_scale(format, address_of(w, n, row_bytes));
  uint chunks = (p.k + 15) / 16;
  for (uint round = gl_LocalInvocationID.x; round < chunks; round += THREADS * CHUNKS) {
    Chunk chunk[CHUNKS * ROWS];
    [[unroll]] for (uint u = 0; u < CHUNKS; ++u) {
      uint c = min(round + u * THREADS, chunks - 1);
      [[unroll]] for (uint r = 0; r < ROWS; ++r) chunk[u * ROWS + r] = decode_chunk(format, rows[r], c, p.k, tail);
    }
    [[unroll]] for (uint u = 0; u < CHUNKS; ++u) {
      bool there = round + u * THREADS < chunks;
      uint c = min(round + u * THREADS, chunks - 1);
      uint first = chunk_first(format, c), count[4];
      vec4 g[4];
      [[unroll]] for (uint i = 0; i < 4; ++i) {
        uint e = quad_at(format, first, i);
        count[i] = !is_unquantized(format) ? 4 : e < p.k ? min(4u, p.k - e) : 0;
        if (NORM) g[i] = load_vector(p.norm, e, count[i], NORM_DTYPE, WIDTH);
      }
      [[unroll]] for (uint m = 0; m < X_ROWS; ++m) {
        uint base = min(m, p.x_rows - 1) * p.k;
        vec4 x[4], x_sums = vec4(0.0);
        [[unroll]] for (uint i = 0; i < 4; ++i) {
          x[i] = load_vector(p.x, base + quad_at(format, first, i), count[i], DTYPE, WIDTH);
          if (NORM) {
            if (squares) sums[SUMS + m] += there ? dot(x[i], x[i]) : 0.0;
            x[i] *= g[i];
          }
          if (has_minimum(format)) x_sums[i] = (x[i].x + x[i].y) + (x[i].z + x[i].w);
        }
        [[unroll]] for (uint r = 0; r < ROWS; ++r) {
          Chunk w = chunk[u * ROWS + r];
          vec4 products =
              vec4(dot(w.quants[0], x[0]), dot(w.quants[1], x[1]), dot(w.quants[2], x[2]), dot(w.quants[3], x[3]));
          float sum;
          if (is_unquantized(format)) sum = (products.x + products.y) + (products.z + products.w);
          else sum = dot(w.scale, products);
          if (has_minimum(format)) {
            sum -= dot(w.least, x_sums);
            // The sum above turns an infinite x into infinities of both signs, but its product with a weight has one
            // sign.
            if (m_isnan(sum)) {
              sum = 0.0;
              for (uint i = 0; i < 4; ++i) sum += dot(w.scale[i] * w.quants[i] - w.least[i], x[i]);
            }
          }
          sums[first_sum + m * ROWS + r] += there ? sum : 0.0;
        }
      }
    }
  }
}

void main() {
  if (any_has_levels()) fill_level_table();
  grid_points = p.points;
  Part part;
  if (!find_part(part)) return;
  Addends addends = load_addends(part, set_thread());
  [[unroll]] for (uint v = 0; v < VALUES; ++v) sums[v] = 0.0;
  if (is_wide()) {
    add_wide_products(weight_at(part.weight), p.w1, part.n, part.row);
  } else if (GATE != 0) {
    add_products(FORMAT_0, ALIGNED_0, p.w0, p.n0, p.bytes0, part.row, 0, true);
    add_products(FORMAT_1, ALIGNED_1, p.w1, p.n0, p.bytes1, part.row, X_ROWS * ROWS, false);
  } else if (SAME_FORMATS) {
    uvec2 w = weight_at(part.weight);
    add_products(FORMAT_0, ALIGNED_0, w, part.n, p.bytes0, part.row, 0, true);
  } else if (part.weight == 0) {
    add_products(FORMAT_0, ALIGNED_0, p.w0, part.n, p.bytes0, part.row, 0, true);
  } else if (part.weight == 1) {
    add_products(FORMAT_1, ALIGNED_1, p.w1, part.n, p.bytes1, part.row, 0, true);
  } else if (part.weight == 2) {
    add_products(FORMAT_2, ALIGNED_2, p.w2, part.n, p.bytes2, part.row, 0, true);
  } else {
    add_products(FORMAT_3, ALIGNED_3, p.w3, part.n, p.bytes3, part.row, 0, true);
  }
  finish(part, addends);
}
