#pragma once

#include <etna/tensor/quant/internal/block_bytes.h>

/// The K formats: super-blocks of 256 with sub-blocks of 16 or 32. Each sub-block has a small whole number as its scale
/// (and minimum), in units of the super-block's f16 d (and dmin).
///
///          bytes at                                                                  value
///   Q2_K   scales 0 (16: scale, minimum x 16), codes 16 (64), d 80, dmin 82          d * s * q - dmin * m
///   Q3_K   third bits 0 (32), codes 32 (64), scales 96 (12), d 108                   d * (s - 32) * (q - 4)
///   Q4_K   d 0, dmin 2, scales 4 (12), codes 16 (128)                                d * s * q - dmin * m
///   Q5_K   d 0, dmin 2, scales 4 (12), fifth bits 16 (32), codes 48 (128)            d * s * q - dmin * m
///   Q6_K   low bits 0 (128), high bits 128 (64), scales 192 (16 x i8), d 208         d * s * (q - 32)
namespace etna::quant {

inline constexpr int kSuperBlock = 256;
inline constexpr int kBytesQ2_K = 84, kBytesQ3_K = 110, kBytesQ4_K = 144, kBytesQ5_K = 176, kBytesQ6_K = 210;

struct ScaleAndMinimum {
  unsigned scale = 0, minimum = 0;
};

/// Six-bit scales and minimums of eight sub-blocks in 12 bytes. The first four scales and minimums have a byte each;
/// the low bits of the others lie in the last four bytes, their two high bits at the top of the first eight.
inline ScaleAndMinimum k_scale(const std::byte* packed, int sub) {
  if (sub < 4) return {byte_at(packed, sub) & 63u, byte_at(packed, sub + 4) & 63u};
  return {(byte_at(packed, sub + 4) & 0xfu) | byte_at(packed, sub - 4) >> 6 << 4,
          byte_at(packed, sub + 4) >> 4 | byte_at(packed, sub) >> 6 << 4};
}
inline void store_k_scale(std::byte* packed, int sub, ScaleAndMinimum six) {
  const auto raise = [&](int at, unsigned bits) { packed[at] |= to_byte(bits); };
  if (sub < 4) {
    raise(sub, six.scale & 63u);
    raise(sub + 4, six.minimum & 63u);
    return;
  }
  raise(sub + 4, (six.scale & 0xfu) | (six.minimum & 0xfu) << 4);
  raise(sub - 4, six.scale >> 4 << 6);
  raise(sub, six.minimum >> 4 << 6);
}

/// Six-bit scales of 16 sub-blocks in 12 bytes, of which 32 is 0: the low four bits in the first eight bytes, the high
/// two in the last four.
inline int q3_k_scale(const std::byte* packed, int sub) {
  const unsigned low = byte_at(packed, sub % 8) >> 4 * (sub / 8) & 0xfu;
  const unsigned high = byte_at(packed, 8 + sub % 4) >> 2 * (sub / 4) & 3u;
  return static_cast<int>(low | high << 4) - 32;
}
inline void store_q3_k_scale(std::byte* packed, int sub, int scale) {
  const unsigned six = static_cast<unsigned>(scale + 32);
  packed[sub % 8] |= to_byte((six & 0xfu) << 4 * (sub / 8));
  packed[8 + sub % 4] |= to_byte((six >> 4 & 3u) << 2 * (sub / 4));
}

}  // namespace etna::quant
