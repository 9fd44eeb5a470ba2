#include <etna/data/tokenizers/internal/unicode/byte_characters.h>

#include <algorithm>
#include <numeric>

namespace etna::data {
namespace {

struct Mapping {
  std::array<unsigned, 256> points{};  ///< byte to code point
  std::array<std::string, 256> text;   ///< byte to UTF-8
  std::array<int, 324> bytes{};        ///< code point to byte; -1: none
  std::array<unsigned char, 256> by_character{};

  Mapping() {
    unsigned next = 256;
    bytes.fill(-1);
    for (unsigned b = 0; b < 256; ++b) {
      const bool visible = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
      const unsigned point = visible ? b : next++;
      points[b] = point;
      bytes[point] = static_cast<int>(b);
      if (point < 0x80) {
        text[b] = static_cast<char>(point);
      } else {
        text[b] = static_cast<char>(0xC0 | point >> 6);
        text[b] += static_cast<char>(0x80 | (point & 0x3F));
      }
    }
    std::iota(by_character.begin(), by_character.end(), static_cast<unsigned char>(0));
    std::sort(by_character.begin(), by_character.end(), [&](auto a, auto b) { return points[a] < points[b]; });
  }
};

const Mapping& mapping() {
  static const Mapping made;
  return made;
}

}  // namespace

const std::string& byte_character(unsigned char byte) { return mapping().text[byte]; }
const std::array<unsigned char, 256>& bytes_by_character() { return mapping().by_character; }

std::string to_characters(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) text += byte_character(static_cast<unsigned char>(c));
  return text;
}

std::optional<std::string> from_characters(std::string_view text) {
  std::string bytes;
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::size_t point = static_cast<unsigned char>(text[i]);
    if (point >= 0x80) {
      if (point < 0xC2 || point > 0xDF || i + 1 == text.size()) return std::nullopt;
      point = (point & 0x1F) << 6 | (static_cast<unsigned char>(text[++i]) & 0x3F);
    }
    if (point >= mapping().bytes.size() || mapping().bytes[point] < 0) return std::nullopt;
    bytes += static_cast<char>(mapping().bytes[point]);
  }
  return bytes;
}

}  // namespace etna::data
