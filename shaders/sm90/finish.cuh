#pragma once
// What is done to a product before it is stored (tensor/product/problem.h: Epilogue): the twin of shaders/lib/finish.glsl, with the
// same flags and formulas.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace hopper {

constexpr std::uint32_t kF32 = 1, kF16 = 2;  // the order of etna::DType; otherwise bf16
constexpr std::uint32_t kBias = 1, kScale = 2, kScaleBy = 4, kPre = 8, kSlope = 16, kResidual = 32;
constexpr std::uint32_t kRelu = 1, kGelu = 2, kGeluTanh = 3, kSilu = 4;  // the order of etna::Activation

struct Finish {
  void* y;
  const void* bias;
  void* beside;  ///< `pre` or `derivative_at`
  const void* residual;
  const float* scale_by;
  std::uint32_t ldy, ld_beside, ld_residual;
  float scale;
};

struct FinishKinds {
  std::uint32_t flags, y, bias, beside, residual;
  std::uint32_t width;  ///< elements that all of these can be reached at: 4, or anything
};

__device__ __forceinline__ float error_function(float a) {
  const float x = fabsf(a), s = a * a;
  if (x < 1.0f) {
    float p = 1.0f / 76204800.0f;
    p = p * s - 1.0f / 6894720.0f;
    p = p * s + 1.0f / 685440.0f;
    p = p * s - 1.0f / 75600.0f;
    p = p * s + 1.0f / 9360.0f;
    p = p * s - 1.0f / 1320.0f;
    p = p * s + 1.0f / 216.0f;
    p = p * s - 1.0f / 42.0f;
    p = p * s + 0.1f;
    p = p * s - 1.0f / 3.0f;
    p = p * s + 1.0f;
    return 1.1283791670955126f * a * p;
  }
  const float t = 1.0f / (1.0f + 0.3275911f * x);
  const float p =
      t * (0.254829592f + t * (-0.284496736f + t * (1.421413741f + t * (-1.453152027f + t * 1.061405429f))));
  const float magnitude = 1.0f - p * __expf(-s);
  return isnan(a) ? a : a < 0 ? -magnitude : magnitude;
}
__device__ __forceinline__ float sigmoid(float a) { return 1.0f / (1.0f + __expf(-a)); }
__device__ __forceinline__ float gelu_inner(float a) { return tanhf(0.7978845608028654f * (a + 0.044715f * a * a * a)); }

__device__ __forceinline__ float activated(float x, std::uint32_t activation) {
  switch (activation) {
    case kRelu: return isnan(x) || x > 0 ? x : 0.0f;
    case kGelu: return 0.5f * x * (1.0f + error_function(x * 0.7071067811865476f));
    case kGeluTanh: return 0.5f * x * (1.0f + gelu_inner(x));
    case kSilu: return x * sigmoid(x);
    default: return x;
  }
}

__device__ __forceinline__ float slope(float x, std::uint32_t activation) {
  switch (activation) {
    case kRelu: return x > 0 ? 1.0f : 0.0f;
    case kGelu:
      return 0.5f * (1.0f + error_function(x * 0.7071067811865476f)) + x * __expf(-0.5f * x * x) * 0.3989422804014327f;
    case kGeluTanh: {
      const float t = gelu_inner(x);
      return 0.5f * (1.0f + t) + 0.5f * x * (1.0f - t * t) * 0.7978845608028654f * (1.0f + 0.134145f * x * x);
    }
    case kSilu: {
      const float s = sigmoid(x);
      return s * (1.0f + x * (1.0f - s));
    }
    default: return 1.0f;
  }
}

__device__ __forceinline__ float load(const void* from, std::size_t i, std::uint32_t dtype) {
  if (dtype == kF32) return static_cast<const float*>(from)[i];
  if (dtype == kF16) return __half2float(static_cast<const __half*>(from)[i]);
  return __bfloat162float(static_cast<const __nv_bfloat16*>(from)[i]);
}
__device__ __forceinline__ void store(void* to, std::size_t i, std::uint32_t dtype, float value) {
  if (dtype == kF32) {
    static_cast<float*>(to)[i] = value;
  } else if (dtype == kF16) {
    static_cast<__half*>(to)[i] = __float2half_rn(value);
  } else {
    static_cast<__nv_bfloat16*>(to)[i] = __float2bfloat16_rn(value);
  }
}

__device__ __forceinline__ float2 widen(std::uint32_t pair, std::uint32_t dtype) {
  if (dtype == kF16) return __half22float2(reinterpret_cast<const __half2&>(pair));
  return __bfloat1622float2(reinterpret_cast<const __nv_bfloat162&>(pair));
}
__device__ __forceinline__ std::uint32_t narrow(float x, float y, std::uint32_t dtype) {
  if (dtype == kF16) {
    const __half2 pair = __floats2half2_rn(x, y);
    return reinterpret_cast<const std::uint32_t&>(pair);
  }
  const __nv_bfloat162 pair = __floats2bfloat162_rn(x, y);
  return reinterpret_cast<const std::uint32_t&>(pair);
}

/// Four neighbouring elements, of which `count` are there; at once where `wide`.
__device__ __forceinline__ void load4(float (&v)[4], const void* from, std::size_t i, int count, bool wide, std::uint32_t dtype) {
  if (wide && dtype == kF32) {
    const float4 x = *reinterpret_cast<const float4*>(static_cast<const float*>(from) + i);
    v[0] = x.x, v[1] = x.y, v[2] = x.z, v[3] = x.w;
  } else if (wide) {
    const uint2 x = *reinterpret_cast<const uint2*>(static_cast<const std::uint16_t*>(from) + i);
    const float2 low = widen(x.x, dtype), high = widen(x.y, dtype);
    v[0] = low.x, v[1] = low.y, v[2] = high.x, v[3] = high.y;
  } else {
#pragma unroll
    for (int c = 0; c < 4; ++c) v[c] = c < count ? load(from, i + c, dtype) : 0.0f;
  }
}
__device__ __forceinline__ void store4(const float (&v)[4], void* to, std::size_t i, int count, bool wide, std::uint32_t dtype) {
  if (wide && dtype == kF32) {
    *reinterpret_cast<float4*>(static_cast<float*>(to) + i) = make_float4(v[0], v[1], v[2], v[3]);
  } else if (wide) {
    *reinterpret_cast<uint2*>(static_cast<std::uint16_t*>(to) + i) =
        make_uint2(narrow(v[0], v[1], dtype), narrow(v[2], v[3], dtype));
  } else {
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      if (c < count) store(to, i + c, dtype, v[c]);
    }
  }
}

/// Stores up to four results from `column` on; `row` counts through the whole batch.
__device__ __forceinline__ void finish4(const Finish& f, const FinishKinds& kinds, float (&t)[4], std::size_t row,
                                        std::uint32_t column, std::uint32_t n) {
  const int count = static_cast<int>(n - column);
  const bool wide = kinds.width == 4;  // rows then are made of whole fours
  const std::uint32_t activation = kinds.flags >> 6;
  float v[4];
  if (kinds.flags & kScale) {
#pragma unroll
    for (int c = 0; c < 4; ++c) t[c] *= f.scale;
  }
  if (kinds.flags & kScaleBy) {
    const float by = *f.scale_by;
#pragma unroll
    for (int c = 0; c < 4; ++c) t[c] *= by;
  }
  if (kinds.flags & kBias) {
    load4(v, f.bias, column, count, wide, kinds.bias);
#pragma unroll
    for (int c = 0; c < 4; ++c) t[c] += v[c];
  }
  if (kinds.flags & kPre) store4(t, f.beside, row * f.ld_beside + column, count, wide, kinds.beside);
  if (kinds.flags & kSlope) {
    load4(v, f.beside, row * f.ld_beside + column, count, wide, kinds.beside);
#pragma unroll
    for (int c = 0; c < 4; ++c) t[c] *= slope(v[c], activation);
  } else if (activation != 0) {
#pragma unroll
    for (int c = 0; c < 4; ++c) t[c] = activated(t[c], activation);
  }
  if (kinds.flags & kResidual) {
    load4(v, f.residual, row * f.ld_residual + column, count, wide, kinds.residual);
#pragma unroll
    for (int c = 0; c < 4; ++c) t[c] += v[c];
  }
  store4(t, f.y, row * f.ldy + column, count, wide, kinds.y);
}

}  // namespace hopper
