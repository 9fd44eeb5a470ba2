#include <etna/data/internal/utf8_character.h>

namespace etna::data {

Utf8Character utf8_character(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) {
    return at + i < text.size() ? static_cast<std::uint32_t>(static_cast<unsigned char>(text[at + i])) : 0u;
  };
  const std::uint32_t lead = byte(0);
  if (lead < 0x80) return {1, lead, true};
  const auto follows = [&](std::size_t i) { return (byte(i) & 0xC0) == 0x80; };
  const auto low = [&](std::size_t i) { return byte(i) & 0x3F; };
  if (lead >= 0xC2 && lead <= 0xDF && follows(1)) return {2, (lead & 0x1F) << 6 | low(1), true};
  if (lead >= 0xE0 && lead <= 0xEF && follows(1) && follows(2)) {
    const std::uint32_t point = (lead & 0x0F) << 12 | low(1) << 6 | low(2);
    if (point >= 0x800 && (point < 0xD800 || point > 0xDFFF)) return {3, point, true};
  }
  if (lead >= 0xF0 && lead <= 0xF4 && follows(1) && follows(2) && follows(3)) {
    const std::uint32_t point = (lead & 0x07) << 18 | low(1) << 12 | low(2) << 6 | low(3);
    if (point >= 0x10000 && point <= 0x10FFFF) return {4, point, true};
  }
  return {1, lead, false};
}

void append_utf8(std::string& text, std::uint32_t point) {
  const auto put = [&](std::uint32_t byte) { text += static_cast<char>(static_cast<unsigned char>(byte)); };
  if (point < 0x80) {
    put(point);
  } else if (point < 0x800) {
    put(0xC0 | point >> 6);
    put(0x80 | (point & 0x3F));
  } else if (point < 0x10000) {
    put(0xE0 | point >> 12);
    put(0x80 | (point >> 6 & 0x3F));
    put(0x80 | (point & 0x3F));
  } else {
    put(0xF0 | point >> 18);
    put(0x80 | (point >> 12 & 0x3F));
    put(0x80 | (point >> 6 & 0x3F));
    put(0x80 | (point & 0x3F));
  }
}

}  // namespace etna::data
