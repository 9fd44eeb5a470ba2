#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include <etna/tensor/dtype.h>

#include "hopper/matrix_units.h"

// Vectors of numbers and functions of CUDA that kernels of shaders/sm90/ use.
#define __device__
#define __forceinline__ inline

struct int2 {
  int x, y;
};
struct float2 {
  float x, y;
};
struct alignas(8) uint2 {
  std::uint32_t x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(16) uint4 {
  std::uint32_t x, y, z, w;
};
inline float2 make_float2(float x, float y) { return {x, y}; }
inline uint2 make_uint2(std::uint32_t x, std::uint32_t y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline uint4 make_uint4(std::uint32_t x, std::uint32_t y, std::uint32_t z, std::uint32_t w) { return {x, y, z, w}; }
inline std::uint32_t min(std::uint32_t a, std::uint32_t b) { return std::min(a, b); }
inline std::uint32_t max(std::uint32_t a, std::uint32_t b) { return std::max(a, b); }
inline std::uint32_t min(std::uint32_t a, int b) { return std::min(a, static_cast<std::uint32_t>(b)); }
inline int min(int a, int b) { return std::min(a, b); }
inline int max(int a, int b) { return std::max(a, b); }

inline std::uint32_t __float_as_uint(float x) {
  std::uint32_t bits;
  std::memcpy(&bits, &x, 4);
  return bits;
}
inline float __uint_as_float(std::uint32_t bits) { return std::bit_cast<float>(bits); }
/// Bytes of a (0 to 3) and b (4 to 7), as the digits of `which` say.
inline std::uint32_t __byte_perm(std::uint32_t a, std::uint32_t b, std::uint32_t which) {
  const std::uint64_t all = std::uint64_t{b} << 32 | a;
  std::uint32_t bytes = 0;
  for (int i = 0; i < 4; ++i) bytes |= static_cast<std::uint32_t>(all >> (which >> 4 * i & 7) * 8 & 0xff) << 8 * i;
  return bytes;
}
inline std::uint32_t __funnelshift_r(std::uint32_t low, std::uint32_t high, std::uint32_t by) {
  return static_cast<std::uint32_t>((std::uint64_t{high} << 32 | low) >> (by & 31));
}
inline float __expf(float x) { return std::exp(x); }
inline std::uint16_t __ushort_as_half(std::uint16_t bits) { return bits; }
inline float __half2float(std::uint16_t bits) {
  etna::Half half;
  half.bits = bits;
  return static_cast<float>(half);
}
using __half = std::uint16_t;
using __nv_bfloat16 = std::uint16_t;
struct __half2 {
  __half x, y;
};
struct __nv_bfloat162 {
  __nv_bfloat16 x, y;
};
inline __half __float2half_rn(float x) { return etna::Half(x).bits; }
inline float __bfloat162float(__nv_bfloat16 x) { return emulated::from_bf16(x); }
inline __nv_bfloat16 __float2bfloat16_rn(float x) { return emulated::to_bf16(x); }
inline float2 __half22float2(__half2 two) { return {__half2float(two.x), __half2float(two.y)}; }
inline float2 __bfloat1622float2(__nv_bfloat162 two) { return {__bfloat162float(two.x), __bfloat162float(two.y)}; }
inline __half2 __floats2half2_rn(float x, float y) { return {__float2half_rn(x), __float2half_rn(y)}; }
inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y) {
  return {__float2bfloat16_rn(x), __float2bfloat16_rn(y)};
}
inline bool isnan(float x) { return std::isnan(x); }
/// Rounded, whatever follows.
inline float __fmul_rn(float x, float y) {
  const volatile float product = x * y;
  return product;
}
inline float __log2f(float x) { return std::log2(x); }
inline float __fdividef(float a, float b) { return a / b; }
