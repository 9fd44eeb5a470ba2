#pragma once
// How skinny_gemm.cuh reads 16 rows of a weight: as f16 or bf16, or in a block format.
//
// A format says how many elements a step of k has, how many bytes that is of a row in memory (kBytes) and in shared
// memory (kPitch, without bank conflicts), and what a thread of four takes of a row's step: eights of neighbouring
// elements. load() reads what lies at `at` in shared memory; eight(j) has the two registers for each of two
// instructions. x_first(), x_flip() and x_block() say where the same eights of x are.
// Without CUDA, tests/hopper/emulator.h comes before.
#ifdef __CUDACC__
#include <cuda_fp16.h>
#endif

#include "hopper.cuh"

namespace hopper {

/// Elements 64 b ... 64 b + 63 of the 32 rows of x take 4 KiB of shared memory, in which eights of different rows and
/// blocks lie so that eight threads which load at once meet different banks.
__device__ __forceinline__ std::uint32_t x_place(std::uint32_t block, std::uint32_t row, std::uint32_t eight) {
  return block * 4096 + row * 128 + (eight ^ (block & 3) ^ (row & 1) * 4) * 16;
}

/// f16 and bf16: a thread of four takes eights t and t + 4 of 64 elements.
template <bool IS_F16>
struct HalfRow {
  static constexpr bool kF16 = IS_F16, kDecodes = false;
  static constexpr int kElements = 64, kBytes = 128, kPitch = 128, kEights = 2;
  uint4 quads[2];

  /// Where a row's 16 bytes `c` lie: in odd rows the halves are swapped, as two rows are read at once.
  static __device__ __forceinline__ std::uint32_t place(std::uint32_t row, std::uint32_t c) {
    return row * kPitch + (c ^ (row & 1) * 4) * 16;
  }
  static __device__ __forceinline__ std::uint32_t x_first(std::uint32_t step, std::uint32_t row, std::uint32_t t) {
    return x_place(step, row, t);
  }
  static __device__ __forceinline__ constexpr std::uint32_t x_flip(int j) { return 4 * j; }
  static __device__ __forceinline__ constexpr std::uint32_t x_block(int) { return 0; }
  __device__ __forceinline__ void load(const char* at, std::uint32_t row, std::uint32_t t, std::uint32_t) {
    quads[0] = *reinterpret_cast<const uint4*>(at + (t ^ (row & 1) * 4) * 16);
    quads[1] = *reinterpret_cast<const uint4*>(at + ((t + 4) ^ (row & 1) * 4) * 16);
  }
  __device__ __forceinline__ uint4 eight(int j) const { return quads[j]; }
};

/// What formats in blocks share: a step has 256 elements, of which a thread of four takes 64.
template <int BYTES, int PITCH = BYTES>
struct BlockRow {
  static constexpr bool kF16 = false, kDecodes = true;
  static constexpr int kElements = 256, kBytes = BYTES, kPitch = PITCH, kEights = 8;
  static __device__ __forceinline__ std::uint32_t place(std::uint32_t row, std::uint32_t c) {
    return row * kPitch + c * 16;
  }
  // Neighbours.
  static __device__ __forceinline__ std::uint32_t x_first(std::uint32_t step, std::uint32_t row, std::uint32_t t) {
    return x_place(step * 4 + t, row, 0);
  }
  static __device__ __forceinline__ constexpr std::uint32_t x_flip(int j) { return j; }
  static __device__ __forceinline__ constexpr std::uint32_t x_block(int) { return 0; }
};

__device__ __forceinline__ std::uint32_t u32_at(const char* at) { return *reinterpret_cast<const std::uint32_t*>(at); }
__device__ __forceinline__ float half_bits(std::uint32_t bits) {
  return __half2float(__ushort_as_half(static_cast<unsigned short>(bits)));
}

/// Scale · quant - minimum, for quants of up to seven bits: 128 + quant is a float whose upper 16 bits are 0x4300 |
/// quant.
struct Affine {
  float scale, offset;  ///< offset: -128 · scale - minimum
  Affine() = default;
  __device__ __forceinline__ Affine(float s, float least) : scale(s), offset(fmaf(s, -128.0f, -least)) {}
  /// Four quants, one byte each.
  __device__ __forceinline__ uint2 operator()(std::uint32_t quants) const {
    float v[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const std::uint32_t bits = __byte_perm(quants, 0x43000000u, 0x7044 | i << 8);  // bytes 0, 0, the quant, 0x43
      v[i] = fmaf(__uint_as_float(bits), scale, offset);
    }
    return make_uint2(pack<false>(v[0], v[1]), pack<false>(v[2], v[3]));
  }
};

/// A block of Q4_K: d, dmin, twelve bytes of scales and minimums, four times 32 bytes with quants of 64 elements.
struct Q4KRow : BlockRow<144> {
  uint4 quants[2];
  Affine low, high;

  __device__ __forceinline__ void load(const char* at, std::uint32_t, std::uint32_t t, std::uint32_t) {
    const uint4 head = *reinterpret_cast<const uint4*>(at);
    quants[0] = *reinterpret_cast<const uint4*>(at + 16 + 32 * t);
    quants[1] = *reinterpret_cast<const uint4*>(at + 32 + 32 * t);
    const float d = half_bits(head.x & 0xffff), least = half_bits(head.x >> 16);
    // Of sub-blocks 2 t and 2 t + 1, a byte each.
    const std::uint32_t shift = 16 * (t & 1), a = head.y >> shift, b = head.z >> shift, c = head.w >> shift;
    const std::uint32_t scales = t < 2 ? a & 0x3f3f : (c & 0x0f0f) | (a >> 2 & 0x3030);
    const std::uint32_t leasts = t < 2 ? b & 0x3f3f : (c >> 4 & 0x0f0f) | (b >> 2 & 0x3030);
    low = Affine(d * static_cast<float>(scales & 0xff), least * static_cast<float>(leasts & 0xff));
    high = Affine(d * static_cast<float>(scales >> 8 & 0xff), least * static_cast<float>(leasts >> 8 & 0xff));
  }
  __device__ __forceinline__ uint4 eight(int j) const {
    const uint4 q = quants[j / 2 % 2];
    const std::uint32_t first = j % 2 ? q.z : q.x, second = j % 2 ? q.w : q.y;
    const Affine& decode = j < 4 ? low : high;
    const int shift = j < 4 ? 0 : 4;
    const uint2 one = decode(first >> shift & 0x0f0f0f0f), two = decode(second >> shift & 0x0f0f0f0f);
    return make_uint4(one.x, one.y, two.x, two.y);
  }
};

/// Blocks of Q8_0: 32 quants after their scale, two blocks for each thread of four.
struct Q8Row : BlockRow<272> {
  std::uint32_t words[17];

  __device__ __forceinline__ void load(const char* at, std::uint32_t, std::uint32_t t, std::uint32_t) {
#pragma unroll
    for (int i = 0; i < 17; ++i) words[i] = u32_at(at + 68 * t + 4 * i);
  }
  __device__ __forceinline__ uint4 eight(int j) const {
    const float d = half_bits(j < 4 ? words[0] & 0xffff : words[8] >> 16);
    // 32768 + (quant + 128) is a float with the sum in its second byte; d has 11 digits, so that the offset is exact.
    const float offset = d * -32896.0f;
    float v[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const int byte = (j < 4 ? 2 : 4) + 8 * j + i;
      const std::uint32_t from_0 = words[byte / 4] ^ 0x80808080u;
      const std::uint32_t bits = __byte_perm(from_0, 0x47000000u, 0x7404 | (byte % 4) << 4);
      v[i] = fmaf(__uint_as_float(bits), d, offset);
    }
    return make_uint4(pack<false>(v[0], v[1]), pack<false>(v[2], v[3]), pack<false>(v[4], v[5]),
                      pack<false>(v[6], v[7]));
  }
};

/// A block of Q6_K: 128 bytes with the low four bits, 64 with the high two, sixteen scales, d; 210 in all, so that a
/// block begins at any even address. A thread of four takes 16 neighbours of each 32 of half a block.
struct Q6KRow : BlockRow<210, 224> {
  std::uint32_t a[4], b[4], high[4];  ///< the half's bytes 0 ... 15 and 32 ... 47 of the thread, and their high bits
  Affine decode[4];

  /// The second half's threads take eights in another order, to meet other banks.
  static __device__ __forceinline__ std::uint32_t x_first(std::uint32_t step, std::uint32_t row, std::uint32_t t) {
    return x_place(step * 4 + t / 2 * 2, row, t % 2 * 2 ^ t / 2);
  }
  static __device__ __forceinline__ constexpr std::uint32_t x_flip(int j) {
    return (j / 2 % 2 * 4 + j % 2) ^ x_block(j);  // blocks of 64 elements differ in it
  }
  static __device__ __forceinline__ constexpr std::uint32_t x_block(int j) { return j / 4; }

  /// COUNT u32s from an even address on.
  template <int COUNT>
  static __device__ __forceinline__ void u32s(std::uint32_t (&v)[COUNT], const char* at, bool odd) {
    std::uint32_t words[COUNT + 1];
#pragma unroll
    for (int i = 0; i <= COUNT; ++i) words[i] = u32_at(at - 2 * odd + 4 * i);
#pragma unroll
    for (int i = 0; i < COUNT; ++i) v[i] = __funnelshift_r(words[i], words[i + 1], 16 * odd);
  }
  static __device__ __forceinline__ void swap_eights(std::uint32_t (&v)[4], bool swap) {
    const std::uint32_t w[4] = {v[0], v[1], v[2], v[3]};
#pragma unroll
    for (int i = 0; i < 4; ++i) v[i] = swap ? w[i ^ 2] : w[i];
  }
  __device__ __forceinline__ void load(const char* stage, std::uint32_t, std::uint32_t t, std::uint32_t step) {
    const std::uint32_t skew = step * kBytes & 15, half = t / 2, from = t % 2;
    const bool odd = (skew & 2) != 0;  // in units of two bytes
    const char* at = stage + skew;
    u32s(a, at + 64 * half + 16 * from, odd);
    u32s(b, at + 64 * half + 32 + 16 * from, odd);
    u32s(high, at + 128 + 32 * half + 16 * from, odd);
    for (auto* v : {&a, &b, &high}) swap_eights(*v, half != 0);
    std::uint32_t scales[2];
    u32s(scales, at + 192 + 8 * half, odd);
    const float d = half_bits(*reinterpret_cast<const std::uint16_t*>(at + 208));
#pragma unroll
    for (int q = 0; q < 4; ++q) {
      const auto integer = static_cast<signed char>(scales[q / 2] >> (8 * from + q % 2 * 16));
      const float scale = d * static_cast<float>(integer);
      decode[q] = Affine(scale, scale * 32);
    }
  }
  __device__ __forceinline__ uint4 eight(int j) const {
    const int q = j / 2;
    uint2 pairs[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int w = j % 2 * 2 + i;
      const std::uint32_t low = (q % 2 ? b[w] : a[w]) >> (q / 2 * 4) & 0x0f0f0f0f;
      pairs[i] = decode[q](low | (high[w] >> 2 * q & 0x03030303) << 4);
    }
    return make_uint4(pairs[0].x, pairs[0].y, pairs[1].x, pairs[1].y);
  }
};

}  // namespace hopper
