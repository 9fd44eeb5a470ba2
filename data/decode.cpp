#include <algorithm>
#include <string_view>

#include <etna/data/corpus.h>
#include <etna/data/internal/words.h>

namespace etna::data {
namespace {

template <std::size_t N>
bool one_of(std::string_view word, const std::string_view (&list)[N]) {
  return std::find(std::begin(list), std::end(list), word) != std::end(list);
}

/// Written without a space before it.
bool joins_left(std::string_view word) {
  static constexpr std::string_view marks[] = {",", ".", ";", ":", "!", "?", ")", "]", "%", "'s", "n't", "'"};
  return one_of(word, marks);
}
/// Written without a space after it.
bool joins_right(std::string_view word) {
  static constexpr std::string_view marks[] = {"(", "[", "$", "£", "#"};
  return one_of(word, marks);
}

/// "@-@", "@,@", "@.@": the mark was inside a word of the original text.
bool is_escaped(std::string_view word) { return word.size() == 3 && word.front() == '@' && word.back() == '@'; }

}  // namespace

void decode_word(std::string_view word, bool& join, bool& quoted, std::string& text) {
  if (word == kEndOfLine) {
    text += '\n';
    join = true;
    quoted = false;
  } else if (is_escaped(word)) {
    text += word[1];
    join = true;
  } else {
    const bool quote = word == "\"";
    if (!join && !joins_left(word) && !(quote && quoted)) text += ' ';
    text += word;
    if (quote) quoted = !quoted;
    join = joins_right(word) || (quote && quoted);
  }
}

std::string decode(std::span<const std::int32_t> ids, const Vocabulary& vocab) {
  std::string text;
  bool join = true, quoted = false;
  for (const std::int32_t id : ids) decode_word(vocab.word(id), join, quoted, text);
  return text;
}

}  // namespace etna::data
