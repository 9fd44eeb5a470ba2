#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include <etna/tensor/quant/block_format.h>
#include <etna/tensor/quant/internal/block_bytes.h>

namespace etna::quant {

/// Blocks of any bits but those of d, an f16 from 1/512 to 1/256, in a format of points that is only decoded.
inline std::vector<std::byte> random_points(const BlockFormat& format, std::int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::byte> blocks(storage_bytes(format, count));
  for (std::byte& byte : blocks) byte = to_byte(static_cast<unsigned>(random()));
  for (std::byte* b = blocks.data(); b != blocks.data() + blocks.size(); b += format.bytes) {
    const auto d = static_cast<std::uint16_t>(0x1800 + random() % 0x400);
    if (format.f16_fields.first >= 0) {
      store(b + format.f16_fields.first, d);
      continue;
    }
    // IQ1_M has four bits of d at the top of each of its last u16s.
    for (int i = 0; i < 4; ++i) {
      std::byte& top = b[format.bytes - 7 + 2 * static_cast<std::size_t>(i)];
      top = (top & std::byte{0x0f}) | to_byte((d >> 4 * i & 15u) << 4);
    }
  }
  return blocks;
}

}  // namespace etna::quant
