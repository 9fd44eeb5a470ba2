#version 460
#extension GL_GOOGLE_include_directive : require
// One optimizer step over every parameter of a group. Bytes-bound: a parameter, its gradient and its state are read
// once, the parameter and the state are written once; these accesses hide the arithmetic. One dispatch serves all
// tensors, since most are small (a bias, a norm) and would not fill the GPU alone: a workgroup takes a chunk of 4096
// elements and finds its tensor in the table. Neighbouring threads access neighbouring vectors of four elements, 16
// elements per thread.
//
// The arithmetic per element is the rule's: tables/optimizers/<rule>.rule, a kernel for each file there.
//
// variant: <rule>_step RULE_<rule>

#include "multi_tensor.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint PARAMETER_DTYPE = 1;
layout(constant_id = 1) const uint GRADIENT_DTYPE = 1;
layout(constant_id = 2) const uint CHUNK = 4096;
layout(constant_id = 3) const uint WIDTH = 1;  // 4 if every tensor is aligned to four elements
// 1: there is a StepControl (tensor/ops/optimizer/internal/optimizer.h)
layout(constant_id = 4) const uint CONTROLLED = 0;

#define ETNA_STATE(index, name)
#define ETNA_NUMBER(name, expression)
#define ETNA_CONSTANT(name, expression) float name;
layout(push_constant, scalar) uniform Push {
  Rows rows;
  uint count, chunks;
  Scalars control, lr, weight_decay, step, momentum;
#include "optimizer_rule.glsl"
} p;
#undef ETNA_NUMBER

// The functions that rules call, on four elements at once.
#define T vec4
T mul_add(T a, T b, T c) { return a * b + c; }
T mul_add(T a, float b, T c) { return a * b + c; }
T neg_mul_add(float a, T b, T c) { return c - a * b; }
T mul_sub(T a, float b, T c) { return a * b - c; }
T div_add(T a, float b, float c) { return a / b + c; }
T div_add(T a, T b, T c) { return a / b + c; }
T neg_mul_add(T a, T b, T c) { return c - a * b; }
T mul_sub(T a, T b, T c) { return a * b - c; }
T pick(bool condition, T a, T b) { return condition ? a : b; }
float pick(bool condition, float a, float b) { return condition ? a : b; }
T pick(bool condition, float a, T b) { return condition ? T(a) : b; }
T larger(T a, T b) { return mix(a, b, bvec4(uvec4(lessThan(a, b)) | uvec4(isnan(b)))); }
T larger(T a, float b) { return larger(a, T(b)); }
T smaller(T a, T b) { return mix(a, b, bvec4(uvec4(greaterThan(a, b)) | uvec4(isnan(b)))); }
T smaller(T a, float b) { return smaller(a, T(b)); }
T by_sign(T s, float positive, float zero, float negative) {
  T rest = mix(s, T(zero), equal(s, T(0.0)));
  return mix(mix(rest, T(positive), greaterThan(s, T(0.0))), T(negative), lessThan(s, T(0.0)));
}
float power(float a, float b) { return pow(a, b); }

// 1 - eˣ for x ≤ 0, within 4e-7. Near 0 the difference would lose its digits. From -1 on, the first omitted term of the
// series is below 4e-8 of the result. Below -1, an error of exp() by five units in the last place costs 2.4e-7.
float one_minus_exp(float x) {
  if (x < -1.0) return 1.0 - exp(max(x, -100.0));
  float sum = 1.0 / 3628800.0;
  sum = sum * x + 1.0 / 362880.0;
  sum = sum * x + 1.0 / 40320.0;
  sum = sum * x + 1.0 / 5040.0;
  sum = sum * x + 1.0 / 720.0;
  sum = sum * x + 1.0 / 120.0;
  sum = sum * x + 1.0 / 24.0;
  sum = sum * x + 1.0 / 6.0;
  sum = sum * x + 0.5;
  return -x * (sum * x + 1.0);
}
float one_minus_power(float beta, float log_beta, float exponent) { return one_minus_exp(exponent * log_beta); }

// The number of gradients in an exponential average, 2/(1 - β) - 1 - 2t βᵗ/(1 - βᵗ). With s = -t log β the last term is
// (2/λ) s/(eˢ - 1), λ = -log β; near s = 0 its series keeps the digits that the difference would lose.
float averaged_length(float rest, float log_beta, float t) {
  float s = -t * log_beta;
  if (s > 1.0) return 2.0 / rest - 1.0 + 2.0 * t * exp(max(-s, -100.0)) / (exp(max(-s, -100.0)) - 1.0);
  // 2/(1 - e^-λ) - 1 - 2/λ = λ/6 - λ³/360 + ...
  float lambda = -log_beta, start = lambda <= 1.0 ? lambda * (1.0 / 6.0 - lambda * lambda / 360.0)
                                                  : 2.0 / rest - 1.0 - 2.0 / lambda;
  float z = s * s;
  return start + t - 2.0 / lambda * z * (1.0 / 12.0 - z * (1.0 / 720.0 - z * (1.0 / 30240.0 - z / 1209600.0)));
}

// The product over i = 1 ... t of β(1 - rⁱ/2); see tensor/ops/optimizer/rules.cpp.
float momentum_product(float log_beta, float log_r, float t) {
  float sum = t * log_beta, halves = 1.0;
  for (int k = 1; k <= 24; ++k) {
    halves *= 0.5;
    float rest = one_minus_exp(log_r * k);
    float series = rest > 0.0 ? (1.0 - rest) * one_minus_exp(log_r * k * t) / rest : t;
    sum -= series * halves / k;
  }
  return exp(max(sum, -100.0));
}

// The numbers of a step. Read once: otherwise the compiler must assume that stores change them.
float factor = 1.0, lr, weight_decay, momentum, log_momentum, one_minus_momentum;
bool first;
#define ETNA_NUMBER(name, expression) float name;
#include "optimizer_rule.glsl"
#undef ETNA_NUMBER
#undef ETNA_CONSTANT

void read_numbers() {
  float step = p.step.v[0];
  if (CONTROLLED != 0) {
    factor = p.control.v[0];
    step -= p.control.v[2];
  }
  lr = p.lr.v[0], weight_decay = p.weight_decay.v[0], first = step == 1.0;
  momentum = p.momentum.v[0], log_momentum = p.momentum.v[1], one_minus_momentum = p.momentum.v[2];
#define ETNA_CONSTANT(name, expression) name = p.name;
#define ETNA_NUMBER(name, expression) name = expression;
#include "optimizer_rule.glsl"
#undef ETNA_CONSTANT
#undef ETNA_NUMBER
}
#undef ETNA_STATE
#define ETNA_CONSTANT(name, expression)
#define ETNA_NUMBER(name, expression)

// Elements i ... i + width - 1.
void update(Row row, uint i, uint parameter_dtype, uint gradient_dtype, uint width) {
  T x = load_vector(row.address[0], i, width, parameter_dtype, width);
  T gradient = load_vector(row.address[1], i, width, gradient_dtype, width);
#define ETNA_STATE(index, name) T name = load_vector(row.address[2 + index], i, width, F32, width);
#include "optimizer_rule.glsl"
#undef ETNA_STATE
#define ETNA_UPDATE
#include "optimizer_rule.glsl"
#undef ETNA_UPDATE
#define ETNA_STATE(index, name) store_vector(row.address[2 + index], i, width, F32, width, name);
#include "optimizer_rule.glsl"
  store_vector(row.address[0], i, width, parameter_dtype, width, x);
}

void main() {
  uint chunk = group_index(), id = gl_LocalInvocationID.x;
  if (chunk >= p.chunks) return;
  if (CONTROLLED != 0 && ETNA_UNIFORM(p.control.v[3] != 0.0)) return;
  Row row = p.rows.v[find_row(p.rows, p.count, chunk)];
  uint parameter_dtype = PARAMETER_DTYPE == MIXED ? row.dtype[0] : PARAMETER_DTYPE;
  uint gradient_dtype = GRADIENT_DTYPE == MIXED ? row.dtype[1] : GRADIENT_DTYPE;
  uint begin = (chunk - row.first_chunk) * CHUNK, end = min(begin + CHUNK, row.elements),
       middle = vectors_end(begin, end, WIDTH);
  read_numbers();
  for (uint i = begin + id * 4; i < middle; i += 1024) update(row, i, parameter_dtype, gradient_dtype, 4);
  for (uint i = middle + id; i < end; i += 256) update(row, i, parameter_dtype, gradient_dtype, 1);
}
