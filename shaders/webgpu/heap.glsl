// The replacement for buffer addresses on WebGPU (docs/webgpu.md). An address is a uvec2: x is the offset in bytes in a
// segment of the heap, y the number of the segment. The bodies of the first functions, and heap and parameters, are
// placeholders: shaders/webgpu/kernels.mjs generates them for the number of segments and for the stores that a kernel
// needs.
layout(set = 0, binding = 0, std430) buffer Heap { uint heap_words[]; };
layout(set = 0, binding = 1, std140) uniform Parameters { uvec4 parameters[9]; };

uint heap_word(const uvec2 a, const uint i) { return heap_words[(a.x >> 2) + i]; }
void heap_set_word(const uvec2 a, const uint i, const uint value) { heap_words[(a.x >> 2) + i] = value; }
// Replaces the bits of `mask` in the u32 that contains byte a.x + byte, while other threads may change its other bits.
void heap_set_bits(const uvec2 a, const uint byte, const uint mask, const uint bits) {
  uint i = (a.x + byte) >> 2;
  heap_words[i] = (heap_words[i] & ~mask) | bits;
}
uint heap_add(const uvec2 a, const uint i, const uint value) { return heap_words[(a.x >> 2) + i] += value; }
uint heap_or(const uvec2 a, const uint i, const uint value) { return heap_words[(a.x >> 2) + i] |= value; }
uint heap_max(const uvec2 a, const uint i, const uint value) { return heap_words[(a.x >> 2) + i] ^= value; }
// 0, but unknown to the compiler.
uint heap_zero() { return parameters[8].x; }

uvec2 heap_at(const uvec2 a, const uint bytes) { return uvec2(a.x + bytes, a.y); }

uint heap_load_u32(const uvec2 a, const uint i) { return heap_word(a, i); }
int heap_load_i32(const uvec2 a, const uint i) { return int(heap_word(a, i)); }
float heap_load_f32(const uvec2 a, const uint i) { return uintBitsToFloat(heap_word(a, i)); }
uvec2 heap_load_u32x2(const uvec2 a, const uint i) { return uvec2(heap_word(a, 2u * i), heap_word(a, 2u * i + 1u)); }
uvec3 heap_load_u32x3(const uvec2 a, const uint i) {
  return uvec3(heap_word(a, 3u * i), heap_word(a, 3u * i + 1u), heap_word(a, 3u * i + 2u));
}
uvec4 heap_load_u32x4(const uvec2 a, const uint i) {
  return uvec4(heap_word(a, 4u * i), heap_word(a, 4u * i + 1u), heap_word(a, 4u * i + 2u), heap_word(a, 4u * i + 3u));
}
ivec4 heap_load_i32x4(const uvec2 a, const uint i) { return ivec4(heap_load_u32x4(a, i)); }
vec2 heap_load_f32x2(const uvec2 a, const uint i) { return uintBitsToFloat(heap_load_u32x2(a, i)); }
vec3 heap_load_f32x3(const uvec2 a, const uint i) { return uintBitsToFloat(heap_load_u32x3(a, i)); }
vec4 heap_load_f32x4(const uvec2 a, const uint i) { return uintBitsToFloat(heap_load_u32x4(a, i)); }

uint heap_load_u8(const uvec2 a, const uint i) {
  uint at = a.x + i;
  return heap_word(uvec2(at, a.y), 0u) >> ((at & 3u) * 8u) & 0xffu;
}
int heap_load_i8(const uvec2 a, const uint i) { return int(heap_load_u8(a, i) << 24) >> 24; }
uint heap_load_u16(const uvec2 a, const uint i) {
  uint at = a.x + 2u * i;
  return heap_word(uvec2(at, a.y), 0u) >> ((at & 2u) * 8u) & 0xffffu;
}
int heap_load_i16(const uvec2 a, const uint i) { return int(heap_load_u16(a, i) << 16) >> 16; }

void heap_store_u32(const uvec2 a, const uint i, const uint value) { heap_set_word(a, i, value); }
void heap_store_i32(const uvec2 a, const uint i, const int value) { heap_set_word(a, i, uint(value)); }
void heap_store_f32(const uvec2 a, const uint i, const float value) { heap_set_word(a, i, floatBitsToUint(value)); }
void heap_store_u32x2(const uvec2 a, const uint i, const uvec2 value) {
  heap_set_word(a, 2u * i, value.x);
  heap_set_word(a, 2u * i + 1u, value.y);
}
void heap_store_u32x3(const uvec2 a, const uint i, const uvec3 value) {
  heap_set_word(a, 3u * i, value.x);
  heap_set_word(a, 3u * i + 1u, value.y);
  heap_set_word(a, 3u * i + 2u, value.z);
}
void heap_store_u32x4(const uvec2 a, const uint i, const uvec4 value) {
  heap_set_word(a, 4u * i, value.x);
  heap_set_word(a, 4u * i + 1u, value.y);
  heap_set_word(a, 4u * i + 2u, value.z);
  heap_set_word(a, 4u * i + 3u, value.w);
}
void heap_store_i32x4(const uvec2 a, const uint i, const ivec4 value) { heap_store_u32x4(a, i, uvec4(value)); }
void heap_store_f32x2(const uvec2 a, const uint i, const vec2 value) { heap_store_u32x2(a, i, floatBitsToUint(value)); }
void heap_store_f32x3(const uvec2 a, const uint i, const vec3 value) { heap_store_u32x3(a, i, floatBitsToUint(value)); }
void heap_store_f32x4(const uvec2 a, const uint i, const vec4 value) { heap_store_u32x4(a, i, floatBitsToUint(value)); }

void heap_store_u8(const uvec2 a, const uint i, const uint value) {
  uint shift = ((a.x + i) & 3u) * 8u;
  heap_set_bits(a, i, 0xffu << shift, (value & 0xffu) << shift);
}
void heap_store_i8(const uvec2 a, const uint i, const int value) { heap_store_u8(a, i, uint(value)); }
void heap_store_u16(const uvec2 a, const uint i, const uint value) {
  uint shift = ((a.x + 2u * i) & 2u) * 8u;
  heap_set_bits(a, 2u * i, 0xffffu << shift, (value & 0xffffu) << shift);
}
void heap_store_i16(const uvec2 a, const uint i, const int value) { heap_store_u16(a, i, uint(value)); }

// Functions that tint cannot read. Like m_isnan() of math.glsl, they test bits.
void heap_multiply(const uint a, const uint b, out uint high, out uint low) {
  uint a0 = a & 0xffffu, a1 = a >> 16, b0 = b & 0xffffu, b1 = b >> 16;
  uint middle = a1 * b0 + (a0 * b0 >> 16), other = (middle & 0xffffu) + a0 * b1;
  high = a1 * b1 + (middle >> 16) + (other >> 16);
  low = a * b;
}
uint heap_carry(const uint a, const uint b, out uint carry) {
  carry = a + b < a ? 1u : 0u;
  return a + b;
}
bool heap_isnan(const float x) { return (floatBitsToUint(x) & 0x7fffffffu) > 0x7f800000u; }
bvec4 heap_isnan(const vec4 x) { return greaterThan(floatBitsToUint(x) & 0x7fffffffu, uvec4(0x7f800000u)); }

// A value that is the same for all threads of the workgroup, so that barriers may depend on it.
uint heap_uniform_word(const uint value) { return parameters[8].y; }
int heap_uniform(const int value) { return int(heap_uniform_word(uint(value))); }
// A barrier for the heap, within the workgroup.
void heap_barrier() { barrier(); }
uint heap_uniform(const uint value) { return heap_uniform_word(value); }
bool heap_uniform(const bool value) { return heap_uniform_word(value ? 1u : 0u) != 0u; }
