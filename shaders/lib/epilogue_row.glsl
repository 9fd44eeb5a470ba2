// The functions of epilogue.glsl that need the push constants: include after them.

// Stores `width` results from `column` on of `row`, which is counted through the whole batch.
void apply_epilogue_to_some(vec4 t, uint row, uint column, uint width) {
  const uint activation = EPILOGUE >> 6;
  if ((EPILOGUE & EPILOGUE_SCALE) != 0) t *= p.scale;
  if ((EPILOGUE & EPILOGUE_SCALE_BY) != 0) t *= BufferF32(p.scale_by).v[0];
  if ((EPILOGUE & EPILOGUE_BIAS) != 0) t += load_vector(p.bias, column, width, BIAS_DTYPE, width);
  if ((EPILOGUE & EPILOGUE_PREACTIVATION) != 0) {
    store_vector(p.aux, row * p.ld_aux + column, width, AUX_DTYPE, width, t);
  }
  if ((EPILOGUE & EPILOGUE_DERIVATIVE) != 0) {
    vec4 at = load_vector(p.aux, row * p.ld_aux + column, width, AUX_DTYPE, width);
    [[unroll]] for (uint c = 0; c < width; ++c) t[c] *= activation_derivative(at[c], activation);
  } else if (activation != 0) {
    [[unroll]] for (uint c = 0; c < width; ++c) t[c] = activated(t[c], activation);
  }
  if ((EPILOGUE & EPILOGUE_RESIDUAL) != 0) {
    t += load_vector(p.residual, row * p.ld_residual + column, width, RESIDUAL_DTYPE, width);
  }
  store_vector(p.y, row * p.ldy + column, width, Y_DTYPE, width, t);
}

// Stores Y_WIDTH results, except those past the end of the row.
void apply_epilogue(vec4 t, uint row, uint column, uint columns) {
  if (Y_WIDTH == 1 || column + Y_WIDTH <= columns) {
    apply_epilogue_to_some(t, row, column, Y_WIDTH);
  } else {
    for (uint c = 0; column + c < columns; ++c) apply_epilogue_to_some(vec4(t[c]), row, column + c, 1);
  }
}
