#include <etna/data/internal/base64.h>

#include <array>
#include <cstdint>

namespace etna::data {
namespace {

/// The number that each character of Base64 (RFC 4648) stands for; -1: none.
constexpr std::array<std::int8_t, 256> kBase64 = [] {
  std::array<std::int8_t, 256> numbers{};
  numbers.fill(-1);
  std::int8_t next = 0;
  for (const char c : std::string_view("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"))
    numbers[static_cast<unsigned char>(c)] = next++;
  return numbers;
}();

}  // namespace

std::optional<std::string> from_base64(std::string_view text) {
  for (int i = 0; i < 2 && text.size() % 4 != 1 && text.ends_with('='); ++i) text.remove_suffix(1);
  if (text.size() % 4 == 1) return std::nullopt;
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3 + 2);
  std::uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    const std::int8_t number = kBase64[static_cast<unsigned char>(c)];
    if (number < 0) return std::nullopt;
    bits = bits << 6 | static_cast<std::uint32_t>(number);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes += static_cast<char>(bits >> count & 255);
  }
  return bytes;
}

}  // namespace etna::data
