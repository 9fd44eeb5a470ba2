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
#ifdef SGD
layout(constant_id = 4) const uint MOMENTUM = 0;
layout(constant_id = 5) const uint NESTEROV = 0;
#else
layout(constant_id = 4) const uint DECOUPLED = 0;
#endif

layout(push_constant, scalar) uniform Push {
  Scalars scalars;
  Rows rows;
  uint count, pieces;
} p;

void main() {
  uint piece = group_index();
  if (piece >= p.pieces) return;
  Row row = p.rows.v[find_row(p.rows, p.count, piece)];
  uint parameter_dtype = PARAMETER_DTYPE == MIXED ? row.dtype[0] : PARAMETER_DTYPE;
  uint gradient_dtype = GRADIENT_DTYPE == MIXED ? row.dtype[1] : GRADIENT_DTYPE;
  uint begin = (piece - row.first_piece) * PIECE, end = min(begin + PIECE, row.elements);

#ifdef SGD
  float lr = p.scalars.v[0], momentum = p.scalars.v[1], fresh = p.scalars.v[2], decay = p.scalars.v[3], kept = p.scalars.v[4];
#else
  float lr = p.scalars.v[0], beta2 = p.scalars.v[2], fresh1 = p.scalars.v[3], fresh2 = p.scalars.v[4], eps = p.scalars.v[5];
  float decay = p.scalars.v[6], step_size = lr / p.scalars.v[7], correction2 = p.scalars.v[8];
#endif

  for (uint i = begin + gl_LocalInvocationID.x * 4; i < end; i += 1024) {
    vec4 x = load_four(row.address[0], i, end, parameter_dtype, WIDTH);
    vec4 g = load_four(row.address[1], i, end, gradient_dtype, WIDTH);
#ifdef SGD
    g += decay * x;
    if (MOMENTUM != 0) {
      // At the first step nothing is kept and the buffer may hold anything.
      vec4 b = kept == 0.0 ? g : momentum * load_four(row.address[2], i, end, F32, WIDTH) + fresh * g;
      store_four(row.address[2], i, end, F32, WIDTH, b);
      g = NESTEROV != 0 ? g + momentum * b : b;
    }
    x -= lr * g;
#else
    vec4 m = load_four(row.address[2], i, end, F32, WIDTH), v = load_four(row.address[3], i, end, F32, WIDTH);
    if (DECOUPLED != 0) x *= 1.0 - lr * decay;
    else g += decay * x;
    m += (g - m) * fresh1;
    v = beta2 * v + fresh2 * g * g;
    store_four(row.address[2], i, end, F32, WIDTH, m);
    store_four(row.address[3], i, end, F32, WIDTH, v);
    x -= step_size * m / (sqrt(v) / correction2 + eps);
#endif
    store_four(row.address[0], i, end, parameter_dtype, WIDTH, x);
  }
}
