#pragma once

#include <etna/tensor/quant/internal/vector_portable.h>

/// Decoders and encoders of whole blocks, from a format's traits. Internal.
namespace etna::quant {

/// Run `Run` of a group, with the bits of ggml's reference, which subtracts integers before it multiplies. (The sources
/// that decode have no fused multiply-adds.)
template <typename F, int Run>
ETNA_INLINE void decode_run(const std::byte* group, const float* scales, const float* minimums, float* out) {
  const Portable::Quants quants = quants_of<Portable, F, Run>(group);
  for (int part = 0; part < 2; ++part) {
    const float scale = scales[2 * Run + part];
    [[maybe_unused]] const float minimum = minimums[2 * Run + part];
    for (int i = 16 * part; i < 16 * part + 16; ++i) {
      out[32 * Run + i] = scale * static_cast<float>(quants.at[i] - F::kZero);
      if constexpr (F::kMinimums) out[32 * Run + i] -= minimum;
    }
  }
}

template <typename F>
ETNA_INLINE void decode_group(const std::byte* group, float* out) {
  float scales[kSubs], minimums[kSubs];
  Portable::sixteen_scales<F>(group, scales, minimums);
  unrolled<8>([&](auto run) ETNA_INLINE_LAMBDA { decode_run<F, run()>(group, scales, minimums, out); });
}

template <typename F>
void decode_blocks(const std::byte* blocks, float* out, std::int64_t count) {
  constexpr std::int64_t kBlocksAGroup = kGroup / F::kElements;
  std::int64_t i = 0;
  for (; i + kBlocksAGroup <= count; i += kBlocksAGroup)
    decode_group<F>(blocks + i * F::kBytes, out + i * F::kElements);
  if (i == count) return;
  std::byte rest[kGroupBytes<F>] = {};
  float values[kGroup];
  std::memcpy(rest, blocks + i * F::kBytes, static_cast<std::size_t>((count - i) * F::kBytes));
  decode_group<F>(rest, values);
  std::memcpy(out + i * F::kElements, values, static_cast<std::size_t>((count - i) * F::kElements) * sizeof(float));
}

template <typename F>
void encode_blocks(const float* values, const float* weights, std::byte* blocks, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i)
    F::encode(values + i * F::kElements, weights + i * F::kElements, blocks + i * F::kBytes);
}

}  // namespace etna::quant
