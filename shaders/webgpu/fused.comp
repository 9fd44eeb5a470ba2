#version 460
#extension GL_GOOGLE_include_directive : require
// The building blocks of fused kernels on WebGPU: functions that the WGSL written by
// device/internal/webgpu/fused_kernel.cpp calls. This kernel never runs; it only names each function, so that all are
// translated.
//
// variant: fused
#include "dtype.glsl"
#include "fused.glsl"

layout(local_size_x = 256) in;
layout(push_constant, scalar) uniform Push {
  uvec2 at;
  uint n, dtype;
} p;

float fused_load_f(const uvec2 address, const uint i, const uint dtype) { return load_float(address, i, dtype); }
int fused_load_i(const uvec2 address, const uint i, const uint dtype) { return load_int(address, i, dtype); }
void fused_store_f(const uvec2 address, const uint i, const uint dtype, const float value) {
  store_float(address, i, dtype, value);
}
void fused_store_i(const uvec2 address, const uint i, const uint dtype, const int value) {
  store_int(address, i, dtype, value);
}
float fused_f16(const float x, const uint unknown, const uint use) { return as_f16(x, unknown, use); }
float fused_bf16(const float x) { return as_bf16(x); }
int fused_i8(const int x) { return as_i8(x); }
int fused_u8(const int x) { return as_u8(x); }
int fused_bool_f(const float x) { return as_bool(x); }
int fused_bool_i(const int x) { return as_bool(x); }
float fused_opaque(const float x, const uint unknown, const uint use) { return opaque(x, unknown, use); }
uint fused_word(const uvec2 table, const uint i) { return BufferPair(table).v[i]; }

#define ETNA_FUNCTION(T, name, suffix, expression) \
  T row_##name##suffix(const T a, const T b, const T c) { return expression; }

#define T float
#define ETNA_FUSED_same(name, expression) ETNA_FUNCTION(float, name, _f, expression)
#define ETNA_FUSED_truth(name, expression) ETNA_FUNCTION(float, name, _f, expression)
#define ETNA_FUSED_real(name, expression) ETNA_FUNCTION(float, name, _f, expression)
#define ETNA_FUSED_bits(name, expression)
#include "fused_rows.glsl"
ETNA_FUSED_same(identity, (a))
#undef ETNA_FUSED_same
#undef ETNA_FUSED_truth
#undef ETNA_FUSED_real
#undef ETNA_FUSED_bits
#undef T

#define T int
#define ETNA_FUSED_same(name, expression) ETNA_FUNCTION(int, name, _i, expression)
#define ETNA_FUSED_truth(name, expression) ETNA_FUNCTION(int, name, _i, expression)
#define ETNA_FUSED_real(name, expression)
#define ETNA_FUSED_bits(name, expression) ETNA_FUNCTION(int, name, _i, expression)
#include "fused_rows.glsl"
ETNA_FUSED_same(identity, (a))
#undef ETNA_FUSED_same
#undef ETNA_FUSED_truth
#undef ETNA_FUSED_real
#undef ETNA_FUSED_bits
#undef T

void main() {
  float x = fused_load_f(p.at, 0, p.dtype), y = fused_f16(x, p.n, p.n), z = fused_bf16(y);
  int u = fused_load_i(p.at, 1, p.dtype), v = fused_i8(u), w = fused_u8(v) + fused_bool_f(x) + fused_bool_i(u);
  x = fused_opaque(x, p.n, fused_word(p.at, 3));
#define ETNA_FUSED_same(name, expression) x += row_##name##_f(x, y, z); u += row_##name##_i(u, v, w);
#define ETNA_FUSED_truth(name, expression) ETNA_FUSED_same(name, expression)
#define ETNA_FUSED_real(name, expression) x += row_##name##_f(x, y, z);
#define ETNA_FUSED_bits(name, expression) u += row_##name##_i(u, v, w);
#include "fused_rows.glsl"
  ETNA_FUSED_same(identity, (a))
  fused_store_f(p.at, 0, p.dtype, x);
  fused_store_i(p.at, 1, p.dtype, u);
}
