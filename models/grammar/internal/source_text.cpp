#include <etna/models/grammar/internal/source_text.h>

#include <algorithm>

#include <fmt/format.h>

#include <etna/data/internal/utf8_character.h>
#include <etna/data/text_file.h>

namespace etna::models {

void check_source(std::string_view source, const char* what, const GrammarLimits& limits) {
  if (source.size() > limits.source_bytes)
    throw GrammarError(fmt::format("{}: it has {} bytes; at most {} are read (GrammarLimits::source_bytes)", what,
                                   source.size(), limits.source_bytes));
  if (const std::size_t at = data::find_invalid_utf8(source); at != std::string::npos)
    throw GrammarError(fmt::format("{}: byte {} is not UTF-8", what, at));
}

bool SourceText::take(std::string_view text) {
  if (!starts_with(text)) return false;
  at_ += text.size();
  return true;
}

std::uint32_t SourceText::character() {
  const data::Utf8Character c = data::utf8_character(text_, at_);
  at_ += c.length;
  return c.point;
}

bool SourceText::hex(int digits, std::uint32_t& value) {
  std::uint32_t read = 0;
  for (int i = 0; i < digits; ++i) {
    const char c = peek(static_cast<std::size_t>(i));
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                             : -1;
    if (digit < 0) return false;
    read = read << 4 | static_cast<std::uint32_t>(digit);
  }
  at_ += static_cast<std::size_t>(digits);
  value = read;
  return true;
}

bool SourceText::number(std::uint64_t& value) {
  const std::size_t begin = at_;
  value = 0;
  for (; peek() >= '0' && peek() <= '9'; ++at_)
    value = std::min<std::uint64_t>(value * 10 + static_cast<std::uint64_t>(peek() - '0'), 4'000'000'000u);
  return at_ > begin;
}

std::string SourceText::here() const {
  if (at_end()) return "the end";
  const data::Utf8Character c = data::utf8_character(text_, at_);
  if (c.point < 0x20) return fmt::format("U+{:04X}", c.point);
  return fmt::format("'{}'", text_.substr(at_, c.length));
}

}  // namespace etna::models
