// The functions of finish.glsl that need the push constants: include after them.

// Stores `width` results from `column` on of `row`, which is counted through the whole batch.
void finish_some(vec4 t, uint row, uint column, uint width) {
  const uint activation = FINISH >> 6;
  if ((FINISH & FINISH_SCALE) != 0) t *= p.scale;
  if ((FINISH & FINISH_SCALE_BY) != 0) t *= BufferF32(p.scale_by).v[0];
  if ((FINISH & FINISH_BIAS) != 0) t += load_vector(p.bias, column, width, BIAS_DTYPE, width);
  if ((FINISH & FINISH_PREACTIVATION) != 0) {
    store_vector(p.aux, row * p.ld_aux + column, width, AUX_DTYPE, width, t);
  }
  if ((FINISH & FINISH_DERIVATIVE) != 0) {
    vec4 at = load_vector(p.aux, row * p.ld_aux + column, width, AUX_DTYPE, width);
    [[unroll]] for (uint c = 0; c < width; ++c) t[c] *= activation_derivative(at[c], activation);
  } else if (activation != 0) {
    [[unroll]] for (uint c = 0; c < width; ++c) t[c] = activated(t[c], activation);
  }
  if ((FINISH & FINISH_RESIDUAL) != 0) {
    t += load_vector(p.residual, row * p.ld_residual + column, width, RESIDUAL_DTYPE, width);
  }
  store_vector(p.y, row * p.ldy + column, width, Y_DTYPE, width, t);
}

// Stores Y_WIDTH results, except those past the end of the row.
void finish(vec4 t, uint row, uint column, uint columns) {
  if (Y_WIDTH == 1 || column + Y_WIDTH <= columns) {
    finish_some(t, row, column, Y_WIDTH);
  } else {
    for (uint c = 0; column + c < columns; ++c) finish_some(vec4(t[c]), row, column + c, 1);
  }
}
