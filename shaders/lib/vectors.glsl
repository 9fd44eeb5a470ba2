// Four neighbouring elements at once. `width` is the load width that the host found to be aligned: 4, 2 or 1 elements.
// Like the dtype, it is a specialization constant at every use. f32, f16 and bf16 only.
#ifndef ETNA_VECTORS_GLSL
#define ETNA_VECTORS_GLSL

#include "dtype.glsl"

ETNA_BUFFER_ALIGNED(BufferVec4, vec4, 16);
ETNA_BUFFER_ALIGNED(BufferVec2, vec2, 8);
ETNA_BUFFER_ALIGNED(BufferPair, uint, 4);

vec2 widen_pair(uint bits, uint dtype) {
  return dtype == F16 ? unpackHalf2x16(bits) : vec2(uintBitsToFloat(bits << 16), uintBitsToFloat(bits & 0xffff0000u));
}

uint narrow_pair(vec2 values, uint dtype) {
  return dtype == F16 ? floats_to_halves(values)
                      : float_to_bfloat16(values.x) | (float_to_bfloat16(values.y) << 16);
}

vec2 load_pair(uvec2 address, uint i, uint dtype) {
  return dtype == F32 ? BufferVec2(address).v[i / 2] : widen_pair(BufferPair(address).v[i / 2], dtype);
}

void store_pair(uvec2 address, uint i, uint dtype, vec2 values) {
  if (dtype == F32) BufferVec2(address).v[i / 2] = values;
  else BufferPair(address).v[i / 2] = narrow_pair(values, dtype);
}

// Elements i ... i + 3; those past the first `count` are 0.
vec4 load_vector(uvec2 address, uint i, uint count, uint dtype, uint width) {
  vec4 r = vec4(0.0);
  if (width == 4) {
    if (count == 0) return r;
    if (dtype == F32) return BufferVec4(address).v[i / 4];
    uvec2 words = BufferWords(address).v[i / 4];
    return vec4(widen_pair(words.x, dtype), widen_pair(words.y, dtype));
  }
  if (width == 2) {
    if (count > 0) r.xy = load_pair(address, i, dtype);
    if (count > 2) r.zw = load_pair(address, i + 2, dtype);
    return r;
  }
  if (count > 0) r.x = load_float(address, i, dtype);
  if (count > 1) r.y = load_float(address, i + 1, dtype);
  if (count > 2) r.z = load_float(address, i + 2, dtype);
  if (count > 3) r.w = load_float(address, i + 3, dtype);
  return r;
}

void store_vector(uvec2 address, uint i, uint count, uint dtype, uint width, vec4 values) {
  if (width == 4) {
    if (count == 0) return;
    if (dtype == F32) BufferVec4(address).v[i / 4] = values;
    else BufferWords(address).v[i / 4] = uvec2(narrow_pair(values.xy, dtype), narrow_pair(values.zw, dtype));
  } else if (width == 2) {
    if (count > 0) store_pair(address, i, dtype, values.xy);
    if (count > 2) store_pair(address, i + 2, dtype, values.zw);
  } else {
    if (count > 0) store_float(address, i, dtype, values.x);
    if (count > 1) store_float(address, i + 1, dtype, values.y);
    if (count > 2) store_float(address, i + 2, dtype, values.z);
    if (count > 3) store_float(address, i + 3, dtype, values.w);
  }
}

#endif
