#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <string>

#include <gtest/gtest.h>

namespace etna::fuzz {

struct Damage {
  std::size_t tried = 0, refused = 0;
};

using Target = bool(const std::uint8_t* data, std::size_t size);

/// Runs a target over a sound file that is cut at every byte, that has numbers at their limits at every byte, and that
/// has random bytes changed, repeated and left out. ETNA_DAMAGE=N makes N times as many of the random ones.
/// @param step for a slow target: the first two only at every `step`-th byte
/// @param random_ones how many files have random changes
inline Damage damage(const std::string& whole, Target* target, std::size_t step = 1, std::size_t random_ones = 2000) {
  Damage result;
  const auto attempt = [&](const std::string& bytes) {
    ++result.tried;
    if (!target(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size())) ++result.refused;
  };
  EXPECT_TRUE(target(reinterpret_cast<const std::uint8_t*>(whole.data()), whole.size())) << "the file is not sound";
  for (std::size_t length = 0; length < whole.size(); length += step) attempt(whole.substr(0, length));
  const std::uint64_t limits[] = {
      0, 0x7f, 0xff, 0x7fffffff, 0x80000000, 0xffffffff, 0x100000000, 1ull << 60, 0x7fffffffffffffffull, ~0ull};
  for (std::size_t at = 0; at < whole.size(); at += step) {
    for (const std::uint64_t limit : limits) {
      for (const std::size_t size : {1, 4, 8}) {
        if (at + size > whole.size()) continue;
        std::string bytes = whole;
        std::memcpy(bytes.data() + at, &limit, size);
        attempt(bytes);
      }
    }
  }
  const char* more = std::getenv("ETNA_DAMAGE");
  std::mt19937 random(7);
  for (std::size_t n = random_ones * (more == nullptr ? 1 : std::stoul(more)); n > 0; --n) {
    std::string bytes = whole;
    for (unsigned changes = random() % 4 + 1; changes > 0; --changes) {
      const std::size_t at = random() % bytes.size(), size = 1 + random() % 16;
      switch (random() % 4) {
        case 0:
          bytes[at] = static_cast<char>(random());
          break;
        case 1:
          bytes[at] = static_cast<char>(bytes[at] ^ 1 << random() % 8);
          break;
        case 2:
          bytes.insert(at, bytes.substr(at, size));
          break;
        default:
          if (bytes.size() > size) bytes.erase(at, size);
      }
      if (bytes.empty()) break;
    }
    attempt(bytes);
  }
  return result;
}

}  // namespace etna::fuzz
