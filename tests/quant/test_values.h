#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace etna::quant {

inline constexpr std::size_t kColumns = 512, kRows = 16;

/// Sums of four uniform numbers, each row wider than the last. make_fixtures.py makes the same.
inline std::vector<float> test_values() {
  std::uint64_t state = 12345;
  std::vector<float> values(kColumns * kRows);
  for (std::size_t i = 0; i < values.size(); ++i) {
    double total = 0;
    for (int k = 0; k < 4; ++k) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      total += static_cast<double>(state >> 40) - 0x1p23;
    }
    values[i] = static_cast<float>(total * 0x1p-23) * static_cast<float>(0.01 * static_cast<double>(1 + i / kColumns));
  }
  return values;
}

inline std::vector<float> test_importance() {
  std::vector<float> factors(kColumns);
  for (std::size_t c = 0; c < kColumns; ++c) factors[c] = static_cast<float>(1 + c * 7 % 13);
  return factors;
}

/// "0aff" → {0x0a, 0xff}
inline std::vector<std::byte> from_hex(std::string_view text) {
  const auto digit = [](char c) { return static_cast<unsigned>(c <= '9' ? c - '0' : c - 'a' + 10); };
  std::vector<std::byte> bytes(text.size() / 2);
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::byte>(digit(text[2 * i]) << 4 | digit(text[2 * i + 1]));
  return bytes;
}

}  // namespace etna::quant
