#pragma once

#include <etna/tensor/quant/internal/vector_portable.h>
#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#include <etna/tensor/quant/internal/vector_avx2.h>
#define ETNA_DECODE_AVX2 1
#endif

/// Decoders and encoders of whole blocks, from a format's traits. Internal.
namespace etna::quant {

// Decoded values are bit-identical to ggml's reference, which subtracts integers before it multiplies. (The sources
// that decode are compiled without fused multiply-adds.)

#ifdef ETNA_DECODE_AVX2
/// Decodes run `Run` of a group. @param scales, minimums the format's own, one for each 16 elements
template <typename F, int Run>
ETNA_INLINE void decode_run(const std::byte* group, const float* scales, const float* minimums, float* out) {
  __m256i quants = quants_of<Avx2, F, Run>(group);
  if constexpr (!kTooLarge<F> && F::kZero != 0) quants = _mm256_sub_epi8(quants, _mm256_set1_epi8(F::kZero));
  alignas(32) std::int8_t bytes[32];
  _mm256_store_si256(reinterpret_cast<__m256i*>(bytes), quants);
  for (int i = 0; i < 4; ++i) {
    const __m128i eight = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(bytes + 8 * i));
    F8 values = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(eight));
    values *= scales[2 * Run + i / 2];
    if constexpr (F::kMinimums) values -= minimums[2 * Run + i / 2];
    _mm256_storeu_ps(out + 32 * Run + 8 * i, values);
  }
}
#else
/// Quants minus kZero, as floats.
template <typename F, int Run>
ETNA_INLINE void decode_quants(const std::byte* group, float (&to)[32]) {
  if constexpr (kHasLevels<F>) {
    Portable::Quants four = Portable::nibbles<F, Run>(group);
    if constexpr (F::kPacking == Packing::nibbles_of_16) four = Portable::by_eights(four);
    for (int i = 0; i < 32; ++i) to[i] = static_cast<float>(F::kLevels[four.at[i]]);
  } else {
    const Portable::Quants quants = quants_of<Portable, F, Run>(group);
    for (int i = 0; i < 32; ++i) to[i] = static_cast<float>(quants.at[i] - F::kZero);
  }
}
/// Decodes run `Run` of a group. @param scales, minimums the format's own, one for each 16 elements
template <typename F, int Run>
ETNA_INLINE void decode_run(const std::byte* group, const float* scales, const float* minimums, float* out) {
  float values[32];
  decode_quants<F, Run>(group, values);
  // Unrolled, because loops over 16 elements would not vectorize.
  const float scale = scales[2 * Run], next = scales[2 * Run + 1];
  for (int i = 0; i < 32; ++i) values[i] *= i < 16 ? scale : next;
  if constexpr (F::kMinimums) {
    const float least = minimums[2 * Run], next_least = minimums[2 * Run + 1];
    for (int i = 0; i < 32; ++i) values[i] -= i < 16 ? least : next_least;
  }
  std::memcpy(out + 32 * Run, values, sizeof values);
}
#endif

template <typename F>
ETNA_INLINE void decode_group(const std::byte* group, float* out) {
  alignas(32) float scales[kSubs], minimums[kSubs];
#ifdef ETNA_DECODE_AVX2
  Avx2::scales_per_16<F, false>(group, scales, minimums);
#else
  Portable::scales_per_16<F>(group, scales, minimums);
#endif
  unrolled<8>([&](auto run) ETNA_INLINE_LAMBDA { decode_run<F, run()>(group, scales, minimums, out); });
}

template <typename F>
void decode_blocks(const std::byte* blocks, float* out, std::int64_t count) {
  constexpr std::int64_t kInGroup = kGroup / F::kElements;
  std::int64_t i = 0;
  for (; i + kInGroup <= count; i += kInGroup) decode_group<F>(blocks + i * F::kBytes, out + i * F::kElements);
  if constexpr (kInGroup > 1) {
    const auto left = static_cast<std::size_t>(count - i) % kInGroup;
    if (left == 0) return;
    std::byte rest[kGroupBytes<F>] = {};
    float values[kGroup];
    std::memcpy(rest, blocks + i * F::kBytes, left * F::kBytes);
    decode_group<F>(rest, values);
    std::memcpy(out + i * F::kElements, values, left * F::kElements * sizeof(float));
  }
}

template <typename F>
void encode_blocks(const float* values, const float* weights, std::byte* blocks, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i)
    F::encode(values + i * F::kElements, weights + i * F::kElements, blocks + i * F::kBytes);
}

}  // namespace etna::quant
