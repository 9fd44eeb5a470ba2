// The epilogue of a · b (tensor/ops/matmul/gemm/internal/gemm_params.h: Epilogue), applied to four neighbouring results
// of a row at a time. The shader declares specialization constants EPILOGUE (flags), Y_WIDTH (elements per load or
// store that suit all tensors here: 4, 2 or 1), Y_DTYPE, BIAS_DTYPE, AUX_DTYPE and RESIDUAL_DTYPE, and puts
// EPILOGUE_PUSH among its push constants, p.
#ifndef ETNA_EPILOGUE_GLSL
#define ETNA_EPILOGUE_GLSL

#include "math.glsl"
#include "vectors.glsl"

// aux: receives the preactivation, or holds the argument of the activation's derivative.
#define EPILOGUE_PUSH                     \
  uvec2 y, bias, aux, residual, scale_by; \
  uint ldy, ld_aux, ld_residual;          \
  float scale;

const uint EPILOGUE_BIAS = 1, EPILOGUE_SCALE = 2, EPILOGUE_SCALE_BY = 4,
           EPILOGUE_PREACTIVATION = 8, EPILOGUE_DERIVATIVE = 16, EPILOGUE_RESIDUAL = 32;

// @param activation etna::Activation
float activated(float x, uint activation) {
  switch (activation) {
#define ETNA_ACTIVATION(number, name, module, result, saved, lo, hi, rows, kind, t, value, gradient, second) \
    case number: return m_##name(x);
#include "tables/activations.def"
#undef ETNA_ACTIVATION
    default: return x;
  }
}

float activation_derivative(float x, uint activation) {
  switch (activation) {
#define ETNA_ACTIVATION(number, name, module, result, saved, lo, hi, rows, kind, t, value, gradient, second) \
    case number: return m_##name##_backward(1.0, x);
#include "tables/activations.def"
#undef ETNA_ACTIVATION
    default: return 1.0;
  }
}

#endif
