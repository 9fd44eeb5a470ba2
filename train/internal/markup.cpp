#include <etna/train/internal/markup.h>

#include <cstdint>

#include <etna/data/internal/utf8_character.h>

namespace etna::training {

std::string escape_markup(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const data::Utf8Character character = data::utf8_character(text, 0);
    const char32_t c = character.point;
    const bool control = (c < 0x20 && c != '\t' && c != '\n' && c != '\r') || (c >= 0x7f && c < 0xa0);
    const bool allowed = character.valid && !control && (c & 0xfffe) != 0xfffe && !(c >= 0xfdd0 && c < 0xfdf0);
    if (!allowed) {
      data::append_utf8(out, 0xfffd);
    } else if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else if (c == '"') {
      out += "&quot;";
    } else if (c == '\'') {
      out += "&#39;";
    } else {
      out += text.substr(0, character.length);
    }
    text.remove_prefix(character.length);
  }
  return out;
}

std::string base64(std::string_view bytes) {
  constexpr const char* kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    std::uint32_t group = 0;
    for (std::size_t i = 0; i < 3; ++i)
      group = group << 8 | (at + i < bytes.size() ? static_cast<unsigned char>(bytes[at + i]) : 0u);
    const std::size_t digits = bytes.size() - at + 1;  // that carry bytes: 2, 3 or 4
    for (std::size_t i = 0; i < 4; ++i) out += i < digits ? kDigits[group >> (18 - 6 * i) & 63] : '=';
  }
  return out;
}

}  // namespace etna::training
