// Each scanner tries the alternatives of its expression in order, like a backtracking matcher, but finds the end of a
// match without backtracking: it knows every set to which backtracking could give back a character.
#include <etna/data/tokenizers/internal/splits/split_scanners.h>

#include <algorithm>

#include <etna/data/tokenizers/internal/splits/pre_tokenizer.h>
#include <etna/data/tokenizers/internal/splits/published_patterns.h>

namespace etna::data {
namespace {

using Text = CharacterReader;

constexpr CategorySet kMark{Category::mark};
constexpr CategorySet kPunctuationCategory{Category::punctuation};
constexpr CategorySet kPunctuationOrSymbol{Category::punctuation, Category::symbol};
constexpr CategorySet kLetterOrMark = kLetter | kMark;
/// [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]: starts a word in CamelCase.
constexpr CategorySet kUpper{Category::uppercase, Category::titlecase, Category::modifier_letter,
                             Category::other_letter, Category::mark};
/// [\p{Ll}\p{Lm}\p{Lo}\p{M}]: continues it.
constexpr CategorySet kLower{Category::lowercase, Category::modifier_letter, Category::other_letter, Category::mark};

char small(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }
bool is_ascii_letter(char c) { return small(c) >= 'a' && small(c) <= 'z'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// (?i:'s|'t|'re|'ve|'m|'ll|'d), where U+017F folds to s. @return the end; `at` if there is no match
std::size_t contraction_end(const Text& text, std::size_t at) {
  if (!text.is(at, '\'') || at + 1 >= text.size()) return at;
  const std::string_view rest = text.text().substr(at + 1, 2);
  const char first = small(rest[0]);
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return at + 2;
  if (rest.size() < 2) return at;
  if (rest == "\xC5\xBF") return at + 3;
  const char second = small(rest[1]);
  const bool two = ((first == 'r' || first == 'v') && second == 'e') || (first == 'l' && second == 'l');
  return two ? at + 3 : at;
}

/// \p{N}{1,Most}
template <int Most>
std::size_t numbers_end(const Text& text, std::size_t at) {
  for (int i = 0; i < Most && text.is(at, kNumber); ++i) at = text.next(at);
  return at;
}

/// ` ?SET+`
std::size_t spaced_run_end(const Text& text, std::size_t at, CategorySet set) {
  const std::size_t begin = text.is(at, ' ') ? at + 1 : at;
  const std::size_t end = text.skip(begin, set);
  return end > begin ? end : at;
}

/// `\s*[\r\n]+|\s+(?!\S)|\s+`: ends after the last line end; without one, before the last white space character if text
/// follows.
std::size_t space_end(const Text& text, std::size_t at) {
  std::size_t end = at, last = at, after_line = at;
  while (end < text.size()) {
    const Text::Character c = text.at(end);
    if (c.category != Category::space) break;
    last = end;
    end += c.length;
    if (c.point == '\r' || c.point == '\n') after_line = end;
  }
  if (after_line > at) return after_line;
  return end < text.size() && last > at ? last : end;
}

/// The position after an optional character of `prefix` that is not a line end.
std::size_t after_prefix(const Text& text, std::size_t at, CategorySet prefix) {
  return text.is(at, prefix) && !text.is_line_end(at) ? text.next(at) : at;
}

/// [^\r\n\p{L}\p{N}]?\p{L}+
std::size_t prefixed_letters_end(const Text& text, std::size_t at) {
  const std::size_t begin = after_prefix(text, at, kOther | kSpace);
  const std::size_t end = text.skip(begin, kLetter);
  return end > begin ? end : at;
}

/// The expressions of Llama 3 and Qwen 2.
template <int Numbers>
std::size_t llama3_end(const Text& text, std::size_t at) {
  if (const std::size_t end = contraction_end(text, at); end > at) return end;
  if (const std::size_t end = prefixed_letters_end(text, at); end > at) return end;
  if (const std::size_t end = numbers_end<Numbers>(text, at); end > at) return end;
  if (const std::size_t end = spaced_run_end(text, at, kOther); end > at) return text.skip_line_ends(end);
  return space_end(text, at);
}

/// UPPER*LOWER+: LOWER+ matches what follows UPPER's run, or else the end of that run, as far as it is in both sets.
/// @return the end; 0 if there is no match
std::size_t lower_word_end(const Text& text, std::size_t at) {
  std::size_t end = 0;
  while (text.is(at, kUpper)) {
    const Text::Character c = text.at(at);
    at += c.length;
    if (kLower.has(c.category)) end = at;
  }
  return text.is(at, kLower) ? text.skip(at, kLower) : end;
}

/// UPPER+LOWER* @return the end; 0 if there is no match
std::size_t upper_word_end(const Text& text, std::size_t at) {
  const std::size_t end = text.skip(at, kUpper);
  return end > at ? text.skip(end, kLower) : 0;
}

/// The expressions of GPT-4o and Mistral's tekken.
template <int Numbers, bool Contractions>
std::size_t gpt4o_end(const Text& text, std::size_t at) {
  // A mark may be the prefix or the first character of the word.
  const std::size_t begin = after_prefix(text, at, kOther | kSpace);
  std::size_t end = lower_word_end(text, begin);
  if (end == 0 && begin > at) end = lower_word_end(text, at);
  if (end == 0) end = upper_word_end(text, begin);
  if (end == 0 && begin > at) end = upper_word_end(text, at);
  if (end > 0) return Contractions ? contraction_end(text, end) : end;
  end = numbers_end<Numbers>(text, at);
  if (end > at) return end;
  end = spaced_run_end(text, at, kOther);
  if (end > at) return text.skip_line_ends(end, '/');
  return space_end(text, at);
}

/// DeepSeek V3's expression. Numbers, control characters and unassigned ones match only before letters.
std::size_t deepseek3_end(const Text& text, std::size_t at) {
  const char c = text.text()[at];
  const bool ascii_mark = c > ' ' && c < '\x7F' && !is_ascii_letter(c) && !is_digit(c);
  if (ascii_mark) {
    std::size_t end = at + 1;
    while (end < text.size() && is_ascii_letter(text.text()[end])) ++end;
    if (end > at + 1) return end;
  }
  if (!text.is(at, kLetter)) {
    const std::size_t begin = after_prefix(text, at, ~(kLetter | kPunctuationOrSymbol));
    const std::size_t end = text.skip(begin, kLetterOrMark);
    if (end > begin) return end;
  }
  if (const std::size_t end = text.skip(at, kLetterOrMark); end > at) return end;
  if (const std::size_t end = spaced_run_end(text, at, kPunctuationOrSymbol); end > at) return text.skip_line_ends(end);
  return space_end(text, at);
}

/// \s?SET+
std::size_t spaced_run_end_any(const Text& text, std::size_t at, CategorySet set) {
  const std::size_t begin = text.is(at, kSpace) ? text.next(at) : at;
  const std::size_t end = text.skip(begin, set);
  return end > begin ? end : at;
}

std::size_t spaced_letters_end(const Text& text, std::size_t at) { return spaced_run_end_any(text, at, kLetter); }
std::size_t spaced_punctuation_end(const Text& text, std::size_t at) {
  return spaced_run_end_any(text, at, kPunctuationCategory);
}

/// The end of a run of at most `Most` characters (0: any number) for which Is holds.
template <auto Is, std::size_t Most = 0>
std::size_t run_end(const Text& text, std::size_t at) {
  for (std::size_t i = 0; at < text.size() && (Most == 0 || i < Most); ++i) {
    const Text::Character c = text.at(at);
    if (!Is(c)) break;
    at += c.length;
  }
  return at;
}

bool is_number(const Text::Character& c) { return kNumber.has(c.category); }
bool split_scanners_is_space(const Text::Character& c) { return kSpace.has(c.category); }
bool split_scanners_is_line_end(const Text::Character& c) { return c.point == '\r' || c.point == '\n'; }
/// [\p{P}$+<=>^`|~]: the symbols of ASCII are these nine.
bool is_mark(const Text::Character& c) {
  return c.category == Category::punctuation || (c.point < 0x80 && c.category == Category::symbol);
}
bool is_mark_but_backtick(const Text::Character& c) { return is_mark(c) && c.point != '`'; }
/// A byte that is not UTF-8 has no code point.
bool is_between(const Text::Character& c, std::uint32_t first, std::uint32_t last) {
  return c.length > 1 && c.point >= first && c.point <= last;
}
bool is_han_or_kana(const Text::Character& c) { return is_between(c, 0x4E00, 0x9FA5) || is_between(c, 0x3040, 0x30FF); }
bool is_han_or_hangul(const Text::Character& c) {
  return is_between(c, 0x0800, 0x9FA5) || is_between(c, 0xAC00, 0xD7FF);
}

std::size_t three_digits_end(const Text& text, std::size_t at) {
  const std::string_view three = text.text().substr(at, 3);
  return three.size() == 3 && std::all_of(three.begin(), three.end(), is_digit) ? at + 3 : at;
}

struct SplitScannersEntry {
  std::string_view pattern;
  SplitScanner scanner;
};

constexpr SplitScannersEntry kEntries[] = {
    {published::kGpt2, word_end},
    {published::kLlama3, llama3_end<3>},
    {published::kQwen2, llama3_end<1>},
    {published::kGpt4o, gpt4o_end<3, true>},
    {published::kTekken, gpt4o_end<1, false>},
    {published::kDeepSeek3, deepseek3_end},
    {published::kHan, run_end<is_han_or_kana>},
    {published::kHanHangul, run_end<is_han_or_hangul>},
    {published::kPunctuation, run_end<is_mark_but_backtick>},
    {published::kFalconPunctuation, run_end<is_mark>},
    {published::kOnePunctuation, run_end<is_mark, 1>},
    {published::kOneNumber, run_end<is_number, 1>},
    {published::kThreeNumbers, run_end<is_number, 3>},
    {published::kNumbers, run_end<is_number>},
    {published::kThreeDigits, three_digits_end},
    {published::kLineEnd, run_end<split_scanners_is_line_end, 1>},
    {published::kOneSpace, run_end<split_scanners_is_space, 1>},
    {published::kSpacedLetters, spaced_letters_end},
    {published::kSpacedPunctuation, spaced_punctuation_end},
};

}  // namespace

SplitScanner split_scanner(std::string_view pattern) {
  for (const SplitScannersEntry& entry : kEntries)
    if (entry.pattern == pattern) return entry.scanner;
  return nullptr;
}

std::vector<std::string_view> scanned_patterns() {
  std::vector<std::string_view> patterns;
  for (const SplitScannersEntry& entry : kEntries) patterns.push_back(entry.pattern);
  return patterns;
}

std::vector<std::pair<std::size_t, std::size_t>> scanner_matches(SplitScanner scanner, std::string_view text) {
  std::vector<std::pair<std::size_t, std::size_t>> matches;
  for_each_part(text, scanner, [&](std::string_view part, bool matched) {
    const auto begin = static_cast<std::size_t>(part.data() - text.data());
    if (matched) matches.emplace_back(begin, begin + part.size());
  });
  return matches;
}

}  // namespace etna::data
