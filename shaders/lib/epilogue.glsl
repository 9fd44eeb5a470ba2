// The epilogue of a · b (tensor/ops/matmul/gemm/internal/gemm_params.h: Epilogue), applied to four neighbouring results
// of a row at a time. The shader declares specialization constants EPILOGUE (flags), Y_WIDTH (elements per load or
// store that suit all tensors here: 4, 2 or 1), Y_DTYPE, BIAS_DTYPE, AUX_DTYPE and RESIDUAL_DTYPE, and puts
// EPILOGUE_PUSH among its push constants, p.
#ifndef ETNA_EPILOGUE_GLSL
#define ETNA_EPILOGUE_GLSL

#include "math.glsl"
#include "vectors.glsl"

// aux: where the preactivation is written, or where the activation's derivative is evaluated.
#define EPILOGUE_PUSH                     \
  uvec2 y, bias, aux, residual, scale_by; \
  uint ldy, ld_aux, ld_residual;          \
  float scale;

const uint EPILOGUE_BIAS = 1, EPILOGUE_SCALE = 2, EPILOGUE_SCALE_BY = 4,
           EPILOGUE_PREACTIVATION = 8, EPILOGUE_DERIVATIVE = 16, EPILOGUE_RESIDUAL = 32;
const uint RELU = 1, GELU = 2, GELU_TANH = 3, SILU = 4;  // the order of etna::Activation

float activated(float x, uint activation) {
  switch (activation) {
    case RELU: return m_max(x, 0.0);
    case GELU: return m_gelu(x);
    case GELU_TANH: return m_gelu_tanh(x);
    case SILU: return x * m_sigmoid(x);
    default: return x;
  }
}

float activation_derivative(float x, uint activation) {
  switch (activation) {
    case RELU: return x > 0.0 ? 1.0 : 0.0;
    case GELU: return m_gelu_derivative(x);
    case GELU_TANH: return m_gelu_tanh_derivative(x);
    case SILU: return m_silu_backward(1.0, x);
    default: return 1.0;
  }
}

#endif
