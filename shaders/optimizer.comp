#version 460
#extension GL_GOOGLE_include_directive : require
// One optimizer step over every parameter of a group. Bytes-bound: a parameter, its gradient and its state are read once, the
// parameter and the state written once; the arithmetic hides behind that. One dispatch for all tensors, since most are
// small (a bias, a norm) and would not fill the GPU by themselves: a workgroup takes a piece of 4096 elements and finds its
// tensor in the table. Neighbouring threads touch neighbouring vectors of four elements, 16 elements a thread.
//
// variant: sgd_step SGD
// variant: adam_step ADAM

#include "multi_tensor.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint PARAMETER_DTYPE = 1;
layout(constant_id = 1) const uint GRADIENT_DTYPE = 1;
layout(constant_id = 2) const uint PIECE = 4096;
layout(constant_id = 3) const uint WIDTH = 1;  // 4 where every tensor is aligned to four of its elements
layout(constant_id = 4) const uint CONTROLLED = 0;  // global_norm_control has said what becomes of the gradients
#ifdef SGD
layout(constant_id = 5) const uint MOMENTUM = 0;
layout(constant_id = 6) const uint NESTEROV = 0;
#else
layout(constant_id = 5) const uint DECOUPLED = 0;
#endif

layout(push_constant, scalar) uniform Push {
  Scalars scalars;
  Rows rows;
  uint count, pieces;
  Scalars control;
} p;

float factor = 1.0, skipped = 0.0;

// Read once: the stores in between could have changed them, for all a compiler knows.
#ifdef SGD
float lr, momentum, fresh, decay, kept;
void read_scalars() {
  lr = p.scalars.v[0], momentum = p.scalars.v[1], fresh = p.scalars.v[2], decay = p.scalars.v[3], kept = p.scalars.v[4];
}
#else
float lr, beta2, fresh1, fresh2, eps, decay, step_size, correction2;

// For x ≤ 0. Near 0 the difference would lose its digits: the series' first term left out is below 1e-9 of it.
float one_minus_exp(float x) {
  return x > -0.03 ? -x * (1.0 + x * (0.5 + x * (1.0 / 6.0 + x * (1.0 / 24.0 + x / 120.0)))) : 1.0 - exp(x);
}

void read_scalars() {
  lr = p.scalars.v[0], beta2 = p.scalars.v[2], fresh1 = p.scalars.v[3], fresh2 = p.scalars.v[4], eps = p.scalars.v[5];
  decay = p.scalars.v[6];
  float correction1 = p.scalars.v[7];
  correction2 = p.scalars.v[8];
  if (CONTROLLED != 0 && skipped != 0.0) {
    float made = p.scalars.v[9] - skipped;
    correction1 = one_minus_exp(made * p.scalars.v[10]);
    correction2 = sqrt(one_minus_exp(made * p.scalars.v[11]));
  }
  step_size = lr / correction1;
}
#endif

// Elements i ... i + width - 1.
void update(Row row, uint i, uint parameter_dtype, uint gradient_dtype, uint width) {
  vec4 x = load_vector(row.address[0], i, width, parameter_dtype, width), g = load_vector(row.address[1], i, width, gradient_dtype, width);
  if (CONTROLLED != 0) g *= factor;
#ifdef SGD
  g += decay * x;
  if (MOMENTUM != 0) {
    // At the first step nothing is kept and the buffer may hold anything.
    vec4 b = kept == 0.0 ? g : momentum * load_vector(row.address[2], i, width, F32, width) + fresh * g;
    store_vector(row.address[2], i, width, F32, width, b);
    g = NESTEROV != 0 ? g + momentum * b : b;
  }
  x -= lr * g;
#else
  vec4 m = load_vector(row.address[2], i, width, F32, width), v = load_vector(row.address[3], i, width, F32, width);
  if (DECOUPLED != 0) x *= 1.0 - lr * decay;
  else g += decay * x;
  m += (g - m) * fresh1;
  v = beta2 * v + fresh2 * g * g;
  store_vector(row.address[2], i, width, F32, width, m);
  store_vector(row.address[3], i, width, F32, width, v);
  x -= step_size * m / (sqrt(v) / correction2 + eps);
#endif
  store_vector(row.address[0], i, width, parameter_dtype, width, x);
}

void main() {
  uint piece = group_index(), id = gl_LocalInvocationID.x;
  if (piece >= p.pieces) return;
  if (CONTROLLED != 0) {
    if (p.control.v[3] != 0.0) return;
    factor = p.control.v[0], skipped = p.control.v[2];
  }
  Row row = p.rows.v[find_row(p.rows, p.count, piece)];
  uint parameter_dtype = PARAMETER_DTYPE == MIXED ? row.dtype[0] : PARAMETER_DTYPE;
  uint gradient_dtype = GRADIENT_DTYPE == MIXED ? row.dtype[1] : GRADIENT_DTYPE;
  uint begin = (piece - row.first_piece) * PIECE, end = min(begin + PIECE, row.elements), middle = vectors_end(begin, end, WIDTH);
  read_scalars();
  for (uint i = begin + id * 4; i < middle; i += 1024) update(row, i, parameter_dtype, gradient_dtype, 4);
  for (uint i = middle + id; i < end; i += 256) update(row, i, parameter_dtype, gradient_dtype, 1);
}
