#include <etna/data/internal/words.h>

#include <array>

namespace etna::data {
namespace {

enum Kind : unsigned char { in_word, space, newline, maybe_space };

/// The kind of character that a byte starts. maybe_space: white_space_at() must look at the whole sequence.
constexpr std::array<Kind, 256> kinds = [] {
  std::array<Kind, 256> k{};
  for (int c : {0x09, 0x0B, 0x0C, 0x1C, 0x1D, 0x1E, 0x1F, 0x20}) k[static_cast<std::size_t>(c)] = space;
  for (int c : {0x0A, 0x0D}) k[static_cast<std::size_t>(c)] = newline;
  for (int c : {0xC2, 0xE1, 0xE2, 0xE3}) k[static_cast<std::size_t>(c)] = maybe_space;
  return k;
}();

Kind kind(char c) { return kinds[static_cast<unsigned char>(c)]; }

/// Calls word(text) and line() for words and line ends in order. Returns true if words follow the last line end.
template <typename Word, typename Line>
bool scan(std::string_view text, Word&& word, Line&& line) {
  std::size_t begin = 0, at = 0;
  bool open = false;
  const auto end_word = [&] {
    if (at > begin) word(text.substr(begin, at - begin));
  };
  while (at < text.size()) {
    const Kind k = kind(text[at]);
    if (k == in_word) {
      ++at;
      open = true;
      continue;
    }
    const std::size_t width = white_space_at(text, at);
    if (width == 0) {  // another character from the same block as some white space
      ++at;
      open = true;
      continue;
    }
    end_word();
    if (k == newline) {
      line();
      at += text.substr(at, 2) == "\r\n" ? 2 : 1;
      open = false;
    } else {
      at += width;
      open = true;
    }
    begin = at;
  }
  end_word();
  return open;
}

}  // namespace

std::size_t white_space_at(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) {
    return at + i < text.size() ? static_cast<unsigned>(static_cast<unsigned char>(text[at + i])) : 0u;
  };
  switch (kind(text[at])) {
    case in_word:
      return 0;
    case space:
    case newline:
      return 1;
    case maybe_space:
      break;
  }
  if (byte(0) == 0xC2) return byte(1) == 0x85 || byte(1) == 0xA0 ? 2 : 0;  // U+0085, U+00A0
  const unsigned point = (byte(0) & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F);
  const bool is_space = point == 0x1680 || (point >= 0x2000 && point <= 0x200A) || point == 0x2028 || point == 0x2029 ||
                        point == 0x202F || point == 0x205F || point == 0x3000;
  return is_space ? 3 : 0;
}

bool is_word(std::string_view text) {
  for (std::size_t at = 0; at < text.size(); ++at)
    if (white_space_at(text, at) != 0) return false;
  return !text.empty();
}

void append_lines(std::string_view text, Vocabulary& vocab, std::vector<std::int32_t>& ids) {
  const auto end_line = [&] { ids.push_back(vocab.add(kEndOfLine)); };
  if (scan(
          text, [&](std::string_view word) { ids.push_back(vocab.add(word)); }, end_line))
    end_line();
}

void for_each_token(std::string_view text, const std::function<void(std::string_view, bool)>& token) {
  scan(
      text, [&](std::string_view word) { token(word, false); }, [&] { token(kEndOfLine, true); });
}

}  // namespace etna::data
