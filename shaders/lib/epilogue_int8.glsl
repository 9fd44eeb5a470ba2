// Shared by the i8 gemms (gemm_int8.comp, gemm_int8_coopmat.comp): their push constants, and how sums are stored.
// Include after vectors.glsl.

// nonzero: the result is floating; bit 1: scaled by rows, bit 2: by columns
layout(constant_id = 4) const uint SCALED = 0;
layout(constant_id = 5) const uint Y_DTYPE = 5;
layout(constant_id = 6) const uint Y_WIDTH = 1;  // 4: four results may be stored at once

layout(push_constant, scalar) uniform Push {
  uvec2 a, b, y, row_scale, column_scale;
  uint m, n, k;
  uint lda, ldb;
  uint a_strides[2], b_strides[2];  // stride of the outer and inner batch dimension
  uint inner, batch;                // sizes: of the inner batch dimension, of both combined
  uint row_step, column_step;       // 0: one scale for all
} p;

ETNA_BUFFER_ALIGNED(BufferInts, ivec4, 16);

// Stores the sums of up to four neighbouring columns of a row; rows are counted through the batch.
void apply_epilogue(ivec4 sums, uint row, uint column) {
  uint at = row * p.n + column, count = min(4, p.n - column);
  if (SCALED == 0) {
    if (Y_WIDTH == 4 && count == 4) {
      BufferInts(p.y).v[at / 4] = sums;
    } else {
      for (uint c = 0; c < count; ++c) BufferI32(p.y).v[at + c] = sums[c];
    }
    return;
  }
  vec4 y = vec4(sums);
  if ((SCALED & 1) != 0) y *= BufferF32(p.row_scale).v[row * p.row_step];
  if ((SCALED & 2) != 0) {
    for (uint c = 0; c < count; ++c) y[c] *= BufferF32(p.column_scale).v[(column + c) * p.column_step];
  }
  if (Y_WIDTH == 4 && count == 4) {
    store_vector(p.y, at, 4, Y_DTYPE, 4, y);
  } else {
    for (uint c = 0; c < count; ++c) store_float(p.y, at + c, Y_DTYPE, y[c]);
  }
}
