#include <etna/data/tokenizers/pieces/internal/added_tokens.h>

#include <fmt/format.h>

#ifdef ETNA_HAS_UTF8PROC
#include <utf8proc.h>
#endif

#include <etna/data/internal/utf8_character.h>
#include <etna/data/tokenizers/internal/unicode/unicode_classes.h>
#include <etna/device/error.h>

namespace etna::data {
namespace {

bool added_tokens_is_space(const Utf8Character& c) {
  return c.valid && character_categories()[c.point] == Category::space;
}

#ifdef ETNA_HAS_UTF8PROC

constexpr bool kKnowsWords = true;

bool is_word(const Utf8Character& c) {
  if (!c.valid) return false;
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c.point))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
      return true;
    default:
      return false;
  }
}

#else

constexpr bool kKnowsWords = false;

bool is_word(const Utf8Character&) { return false; }

#endif

/// The character that ends before text[at], at > 0.
Utf8Character character_before(std::string_view text, std::size_t at) {
  for (std::size_t back = 1; back <= 4 && back <= at; ++back) {
    const Utf8Character c = utf8_character(text.substr(0, at), at - back);
    if (c.valid && c.length == back) return c;
  }
  return {1, static_cast<unsigned char>(text[at - 1]), false};
}

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  std::vector<std::pair<std::string_view, std::int32_t>> all, ordinary;
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    if (tokens_[i].single_word && !kKnowsWords)
      throw FormatError(
          fmt::format("the added token '{}' has single_word = true, which needs utf8proc; build Etna without "
                      "ETNA_MINIMAL (Debian: libutf8proc-dev)",
                      tokens_[i].text));
    all.emplace_back(tokens_[i].text, static_cast<std::int32_t>(i));
    if (!tokens_[i].special) ordinary.push_back(all.back());
  }
  all_ = PrefixTrie(all);
  ordinary_ = PrefixTrie(ordinary);
}

void AddedTokens::split(std::string_view text, bool special, const std::function<void(std::string_view)>& on_text,
                        const std::function<void(std::int32_t)>& on_token, const Ranges* markup) const {
  std::size_t begin = 0, range = 0;
  const PrefixTrie& possible = special || markup != nullptr ? all_ : ordinary_;
  for (std::size_t at = 0; !possible.empty() && at < text.size();) {
    if (!possible.has_first(text[at])) {
      ++at;
      continue;
    }
    PrefixTrie::Longest found = (special ? all_ : ordinary_).longest(text.substr(at));
    if (markup != nullptr && !special) {
      while (range < markup->size() && (*markup)[range].second <= at) ++range;
      if (range < markup->size() && (*markup)[range].first <= at) {
        const auto other = all_.longest(text.substr(at, (*markup)[range].second - at));
        if (other.length >= found.length) found = other;
      }
    }
    if (found.length == 0) {
      ++at;
      continue;
    }
    const AddedToken& token = tokens_[static_cast<std::size_t>(found.id)];
    std::size_t left = at, right = at + found.length;
    at = right;
    if (token.single_word && ((left > 0 && is_word(character_before(text, left))) ||
                              (right < text.size() && is_word(utf8_character(text, right)))))
      continue;
    while (token.strip_left && left > begin) {
      const Utf8Character c = character_before(text, left);
      if (!added_tokens_is_space(c) || c.length > left - begin) break;
      left -= c.length;
    }
    while (token.strip_right && right < text.size()) {
      const Utf8Character c = utf8_character(text, right);
      if (!added_tokens_is_space(c)) break;
      right += c.length;
    }
    if (left > begin) on_text(text.substr(begin, left - begin));
    on_token(token.id);
    begin = at = right;
  }
  if (begin < text.size()) on_text(text.substr(begin));
}

}  // namespace etna::data
