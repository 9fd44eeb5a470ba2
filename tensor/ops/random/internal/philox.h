#pragma once

#include <array>
#include <cstdint>

/// Philox4x32-10 (Salmon et al. 2011): a block cipher used as a counter-based generator. Block b of a stream is a pure
/// function of (seed, offset, b), so any thread on any device can recompute any element. shaders/lib/philox.glsl is
/// identical.
namespace etna::random {

using Counter = std::array<std::uint32_t, 4>;
using Key = std::array<std::uint32_t, 2>;

/// A stream of blocks. Each call of a random op takes the next offset of the process's generator.
struct Stream {
  std::uint64_t seed = 0, offset = 0;
};

inline constexpr std::uint32_t kMultipliers[] = {0xD2511F53u, 0xCD9E8D57u};
inline constexpr std::uint32_t kIncrements[] = {0x9E3779B9u, 0xBB67AE85u};

constexpr Counter block(Counter c, Key key) {
  for (int round = 0; round < 10; ++round) {
    std::uint64_t a = static_cast<std::uint64_t>(kMultipliers[0]) * c[0],
                  b = static_cast<std::uint64_t>(kMultipliers[1]) * c[2];
    c = {static_cast<std::uint32_t>(b >> 32) ^ c[1] ^ key[0], static_cast<std::uint32_t>(b),
         static_cast<std::uint32_t>(a >> 32) ^ c[3] ^ key[1], static_cast<std::uint32_t>(a)};
    key = {key[0] + kIncrements[0], key[1] + kIncrements[1]};
  }
  return c;
}

/// Block `index` of a stream: the index is the lower half of the counter, the offset its upper half.
constexpr Counter block(Stream s, std::uint64_t index) {
  return block({static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32),
                static_cast<std::uint32_t>(s.offset), static_cast<std::uint32_t>(s.offset >> 32)},
               {static_cast<std::uint32_t>(s.seed), static_cast<std::uint32_t>(s.seed >> 32)});
}

/// Sixteen blocks starting at `first`, grouped by their four u32. The loops run over the blocks, so that they
/// vectorize.
inline constexpr int kWide = 16;
inline void blocks(Stream s, std::uint64_t first, std::uint32_t (&words)[4 * kWide]) {
  std::uint32_t c[4][kWide];
  for (int i = 0; i < kWide; ++i) {
    std::uint64_t index = first + static_cast<std::uint64_t>(i);
    c[0][i] = static_cast<std::uint32_t>(index);
    c[1][i] = static_cast<std::uint32_t>(index >> 32);
    c[2][i] = static_cast<std::uint32_t>(s.offset);
    c[3][i] = static_cast<std::uint32_t>(s.offset >> 32);
  }
  auto k0 = static_cast<std::uint32_t>(s.seed), k1 = static_cast<std::uint32_t>(s.seed >> 32);
  for (int round = 0; round < 10; ++round, k0 += kIncrements[0], k1 += kIncrements[1]) {
    for (int i = 0; i < kWide; ++i) {
      std::uint64_t a = static_cast<std::uint64_t>(kMultipliers[0]) * c[0][i],
                    b = static_cast<std::uint64_t>(kMultipliers[1]) * c[2][i];
      c[0][i] = static_cast<std::uint32_t>(b >> 32) ^ c[1][i] ^ k0;
      c[2][i] = static_cast<std::uint32_t>(a >> 32) ^ c[3][i] ^ k1;
      c[1][i] = static_cast<std::uint32_t>(b);
      c[3][i] = static_cast<std::uint32_t>(a);
    }
  }
  for (int i = 0; i < kWide; ++i) {
    for (int w = 0; w < 4; ++w) words[4 * i + w] = c[w][i];
  }
}

}  // namespace etna::random
