// The function of finish.glsl that needs the push constants: included behind them.

// Stores Y_WIDTH results from `column` on of `row`, counted through the whole batch.
void finish(vec4 t, uint row, uint column) {
  const uint activation = FINISH >> 6;
  if ((FINISH & FINISH_SCALE) != 0) t *= p.scale;
  if ((FINISH & FINISH_SCALE_BY) != 0) t *= BufferF32(p.scale_by).v[0];
  if ((FINISH & FINISH_BIAS) != 0) t += load_vector(p.bias, column, Y_WIDTH, BIAS_DTYPE, Y_WIDTH);
  if ((FINISH & FINISH_PRE) != 0) {
    store_vector(p.beside, row * p.ld_beside + column, Y_WIDTH, BESIDE_DTYPE, Y_WIDTH, t);
  }
  if ((FINISH & FINISH_SLOPE) != 0) {
    vec4 at = load_vector(p.beside, row * p.ld_beside + column, Y_WIDTH, BESIDE_DTYPE, Y_WIDTH);
    [[unroll]] for (uint c = 0; c < Y_WIDTH; ++c) t[c] *= slope(at[c], activation);
  } else if (activation != 0) {
    [[unroll]] for (uint c = 0; c < Y_WIDTH; ++c) t[c] = activated(t[c], activation);
  }
  if ((FINISH & FINISH_RESIDUAL) != 0) {
    t += load_vector(p.residual, row * p.ld_residual + column, Y_WIDTH, RESIDUAL_DTYPE, Y_WIDTH);
  }
  store_vector(p.y, row * p.ldy + column, Y_WIDTH, Y_DTYPE, Y_WIDTH, t);
}
