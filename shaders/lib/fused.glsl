// Building blocks of generated kernels (device/internal/vulkan/executable/fusion/), in addition to the expressions of
// elementwise.def.
#ifndef ETNA_FUSED_GLSL
#define ETNA_FUSED_GLSL

#include "vectors.glsl"
#include "math.glsl"
#include "special.glsl"

ETNA_BUFFER_ALIGNED(BufferInts, ivec4, 16);

// A value as if it were stored to memory and read back. (f16 goes through bits that the compiler cannot recognize as a
// conversion: see opaque().)
float as_f16(float x, uint unknown, uint use) { return half_to_float(float_to_half(x) ^ (unknown * use)); }
float as_bf16(float x) { return bfloat16_to_float(float_to_bfloat16(x)); }
int as_i8(int x) { return bitfieldExtract(x, 0, 8); }
int as_u8(int x) { return x & 255; }
int as_bool(int x) { return x != 0 ? 1 : 0; }
int as_bool(float x) { return x != 0.0 ? 1 : 0; }

// The same bits, but opaque to the compiler, so that it computes as if they came from memory. `unknown` is a number
// that is 0 at run time; each `use` makes a distinct value.
float opaque(float x, uint unknown, uint use) { return uintBitsToFloat(floatBitsToUint(x) ^ (unknown * use)); }

// Four neighbouring integers; i is a multiple of 4 and the address is aligned to four elements. i32, i8, u8 and bool
// only.
ivec4 load_ints(uvec2 address, uint i, uint dtype) {
  if (dtype == I32) return BufferInts(address).v[i / 4];
  uint word = BufferPair(address).v[i / 4];
  if (dtype == I8) {
    int w = int(word);
    return ivec4(bitfieldExtract(w, 0, 8), bitfieldExtract(w, 8, 8),
                 bitfieldExtract(w, 16, 8), bitfieldExtract(w, 24, 8));
  }
  return ivec4(word & 255u, (word >> 8) & 255u, (word >> 16) & 255u, word >> 24);
}

void store_ints(uvec2 address, uint i, uint dtype, ivec4 x) {
  if (dtype == I32) {
    BufferInts(address).v[i / 4] = x;
    return;
  }
  if (dtype == BOOL) x = ivec4(as_bool(x.x), as_bool(x.y), as_bool(x.z), as_bool(x.w));
  uvec4 u = uvec4(x) & 255u;
  BufferPair(address).v[i / 4] = u.x | (u.y << 8) | (u.z << 16) | (u.w << 24);
}

#endif
