#pragma once
// The epilogue of a · b (tensor/ops/matmul/gemm/internal/gemm_params.h: Epilogue): the counterpart of
// shaders/lib/epilogue.glsl, with the same flags and formulas.
#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#endif

#include <cstdint>
#include <type_traits>

#include "activations.cuh"

namespace hopper {

constexpr std::uint32_t kF32 = 1, kF16 = 2, kBF16 = 3;  // in the order of etna::DType
constexpr std::uint32_t kBias = 1, kScale = 2, kScaleBy = 4, kPreactivation = 8, kDerivative = 16, kResidual = 32;

struct Epilogue {
  void* y;
  const void* bias;
  void* aux;  ///< aux: `pre` or `derivative_at`
  const void* residual;
  const float* scale_by;
  std::uint32_t ldy, ld_aux, ld_residual;
  float scale;
};

struct EpilogueKinds {
  std::uint32_t flags, y, bias, aux, residual;
  std::uint32_t width;  ///< elements per load or store that suit all of these: 4, 2 or 1
};

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

/// Up to four results from `column` on, one element at a time if the rows do not allow more; `row` is counted through
/// the whole batch.
__device__ __forceinline__ void apply_epilogue_to_some(const Epilogue& f, const EpilogueKinds& kinds, float (&t)[4],
                                                       std::size_t row, std::uint32_t column, int count) {
  const std::uint32_t activation = kinds.flags >> 6;
#pragma unroll 1
  for (int c = 0; c < count; ++c, ++column) {
    float x = c == 0 ? t[0] : c == 1 ? t[1] : c == 2 ? t[2] : t[3];
    if (kinds.flags & kScale) x *= f.scale;
    if (kinds.flags & kScaleBy) x *= *f.scale_by;
    if (kinds.flags & kBias) x += load(f.bias, column, kinds.bias);
    if (kinds.flags & kPreactivation) store(f.aux, row * f.ld_aux + column, kinds.aux, x);
    if (kinds.flags & kDerivative) {
      x *= activation_derivative(load(f.aux, row * f.ld_aux + column, kinds.aux), activation);
    } else {
      x = activated(x, activation);
    }
    if (kinds.flags & kResidual) x += load(f.residual, row * f.ld_residual + column, kinds.residual);
    store(f.y, row * f.ldy + column, kinds.y, x);
  }
}

/// Four neighbours in each of N rows, `stride` apart; only the first `rows` rows exist. Loads WIDTH elements (4 or 2)
/// at once. One branch on the dtype serves all rows, so that all loads are in flight before the first result is used.
template <int WIDTH, int N>
__device__ __forceinline__ void load_rows(float (&v)[N][4], const void* from, std::size_t first, std::size_t stride,
                                          int rows, std::uint32_t dtype) {
  using Floats = std::conditional_t<WIDTH == 4, float4, float2>;
  using Pairs = std::conditional_t<WIDTH == 4, uint2, std::uint32_t>;
  constexpr int kLoads = 4 / WIDTH;
  if (dtype == kF32) {
#pragma unroll
    for (int u = 0; u < N; ++u) {
      const auto* x = reinterpret_cast<const Floats*>(static_cast<const float*>(from) + first + u * stride);
#pragma unroll
      for (int i = 0; i < kLoads; ++i) {
        if (u < rows) reinterpret_cast<Floats*>(v[u])[i] = x[i];
      }
    }
  } else {
    union Quad {
      Pairs loads[kLoads];
      std::uint32_t pairs[2];
    } quads[N];
#pragma unroll
    for (int u = 0; u < N; ++u) {
      const auto* x = reinterpret_cast<const Pairs*>(static_cast<const std::uint16_t*>(from) + first + u * stride);
#pragma unroll
      for (int i = 0; i < kLoads; ++i) {
        if (u < rows) quads[u].loads[i] = x[i];
      }
    }
#pragma unroll
    for (int u = 0; u < N; ++u) {
      const float2 low = widen(quads[u].pairs[0], dtype), high = widen(quads[u].pairs[1], dtype);
      v[u][0] = low.x, v[u][1] = low.y, v[u][2] = high.x, v[u][3] = high.y;
    }
  }
}
template <int WIDTH, int N>
__device__ __forceinline__ void store_rows(const float (&v)[N][4], void* to, std::size_t first, std::size_t stride,
                                           int rows, std::uint32_t dtype) {
#pragma unroll
  for (int u = 0; u < N; ++u) {
    if (u >= rows) continue;
    if (dtype == kF32) {
      float* y = static_cast<float*>(to) + first + u * stride;
      if constexpr (WIDTH == 4) {
        *reinterpret_cast<float4*>(y) = make_float4(v[u][0], v[u][1], v[u][2], v[u][3]);
      } else {
        reinterpret_cast<float2*>(y)[0] = make_float2(v[u][0], v[u][1]);
        reinterpret_cast<float2*>(y)[1] = make_float2(v[u][2], v[u][3]);
      }
    } else {
      std::uint16_t* y = static_cast<std::uint16_t*>(to) + first + u * stride;
      const uint2 pairs = make_uint2(narrow(v[u][0], v[u][1], dtype), narrow(v[u][2], v[u][3], dtype));
      if constexpr (WIDTH == 4) {
        *reinterpret_cast<uint2*>(y) = pairs;
      } else {
        reinterpret_cast<std::uint32_t*>(y)[0] = pairs.x;
        reinterpret_cast<std::uint32_t*>(y)[1] = pairs.y;
      }
    }
  }
}

/// The epilogue for four neighbours in each of N rows, two rows apart. Everything known before a tile starts is a
/// template parameter, so the instructions of one case are contiguous. (With the choice made per element, execution
/// jumped through the code of all activations for every four results, and storing a tile took four times as long as its
/// 512 steps of k.)
template <int WIDTH, std::uint32_t ACTIVATION, bool DERIVATIVE, bool HAS_AUX, int N>
__device__ __forceinline__ void epilogue_rows(const Epilogue& f, const EpilogueKinds& kinds, float (&t)[N][4],
                                              const float (&bias)[4], float scale, std::size_t row,
                                              std::uint32_t column, int rows) {
  float at[N][4], residual[N][4];
  const bool adds = HAS_AUX && (kinds.flags & kResidual) != 0;
  if constexpr (DERIVATIVE) load_rows<WIDTH>(at, f.aux, row * f.ld_aux + column, 2 * f.ld_aux, rows, kinds.aux);
  if (adds)
    load_rows<WIDTH>(residual, f.residual, row * f.ld_residual + column, 2 * f.ld_residual, rows, kinds.residual);
#pragma unroll
  for (int u = 0; u < N; ++u) {
#pragma unroll
    for (int c = 0; c < 4; ++c) t[u][c] = t[u][c] * scale + bias[c];
  }
  if (HAS_AUX && (kinds.flags & kPreactivation))
    store_rows<WIDTH>(t, f.aux, row * f.ld_aux + column, 2 * f.ld_aux, rows, kinds.aux);
#pragma unroll
  for (int u = 0; u < N; ++u) {
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      if constexpr (DERIVATIVE)
        t[u][c] *= activation_derivative(at[u][c], ACTIVATION);
      else
        t[u][c] = activated(t[u][c], ACTIVATION);
      if (adds) t[u][c] += residual[u][c];
    }
  }
  store_rows<WIDTH>(t, f.y, row * f.ldy + column, 2 * f.ldy, rows, kinds.y);
}

}  // namespace hopper
