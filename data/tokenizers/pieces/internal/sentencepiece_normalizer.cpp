#include <etna/data/tokenizers/pieces/internal/sentencepiece_normalizer.h>

#include <etna/data/internal/utf8_character.h>
#include <etna/data/tokenizers/pieces/internal/space_symbol.h>

namespace etna::data {

SentencePieceNormalizer::Part SentencePieceNormalizer::first_part(std::string_view text) const {
  if (user_defined.has_first(text[0]))
    if (const auto whole = user_defined.longest(text); whole.length > 0)
      return {text.substr(0, whole.length), whole.length};
  if (!rules.empty())
    if (const Charsmap::Rule rule = rules.longest(text); rule.length > 0) return {rule.text, rule.length};
  if (static_cast<unsigned char>(text[0]) < 0x80) return {text.substr(0, 1), 1};
  const Utf8Character c = utf8_character(text, 0);
  if (!c.valid && !keep_invalid) return {"\xEF\xBF\xBD", 1};
  return {text.substr(0, c.length), c.length};
}

std::string SentencePieceNormalizer::operator()(std::string_view text) const {
  std::string out;
  if (remove_extra_whitespaces) {
    while (!text.empty()) {
      const Part part = first_part(text);
      if (part.text != " ") break;
      text.remove_prefix(part.length);
    }
  }
  if (text.empty()) return out;
  const std::string_view space = escape_whitespaces ? kSpaceSymbol : std::string_view(" ");
  out.reserve(text.size() + text.size() / 4 + space.size());
  if (add_space_prefix && !treat_whitespace_as_suffix) out += space;
  bool after_space = remove_extra_whitespaces;
  while (!text.empty()) {
    const Part part = first_part(text);
    text.remove_prefix(part.length);
    std::string_view characters = part.text;
    while (after_space && !characters.empty() && characters[0] == ' ') characters.remove_prefix(1);
    if (characters.empty()) continue;
    for (const char c : characters) {
      if (c == ' ')
        out += space;
      else
        out += c;
    }
    after_space = remove_extra_whitespaces && characters.back() == ' ';
  }
  if (remove_extra_whitespaces)
    while (out.size() >= space.size() && std::string_view(out).substr(out.size() - space.size()) == space)
      out.resize(out.size() - space.size());
  if (add_space_prefix && treat_whitespace_as_suffix) out += space;
  return out;
}

}  // namespace etna::data
