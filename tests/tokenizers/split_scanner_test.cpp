#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <random>
#include <sstream>

#include <runner/libraries.h>

#include <etna/data/internal/utf8_character.h>
#include <etna/data/tokenizers/internal/splits/published_patterns.h>
#include <etna/data/tokenizers/internal/splits/regex_splitter.h>
#include <etna/data/tokenizers/internal/splits/split_scanners.h>

namespace {

using namespace etna::data;
using SplitScannerStrings = std::vector<std::string>;

/// The text, with what no terminal shows spelled out.
std::string readable(std::string_view text) {
  std::ostringstream out;
  for (const char c : text) {
    if (c >= ' ' && c <= '~')
      out << c;
    else
      out << "\\x" << std::hex << (static_cast<unsigned>(c) & 0xFF);
  }
  return out.str();
}

/// Whether scanner and PCRE2 find the same matches.
::testing::AssertionResult agree(std::string_view pattern, const RegexSplitter& regex, std::string_view text) {
  const auto by_hand = scanner_matches(split_scanner(pattern), text);
  const auto by_regex = regex.matches(text);
  if (by_hand == by_regex) return ::testing::AssertionSuccess();
  std::size_t i = 0;
  while (i < by_hand.size() && i < by_regex.size() && by_hand[i] == by_regex[i]) ++i;
  auto failure = ::testing::AssertionFailure() << pattern << ": match " << i << " of " << readable(text.substr(0, 400));
  const auto show = [&](const char* who, const auto& matches) {
    if (i < matches.size()) failure << "; " << who << " [" << matches[i].first << ", " << matches[i].second << ")";
  };
  show("by hand", by_hand);
  show("PCRE2", by_regex);
  return failure;
}

/// Pieces of text that expressions treat differently, next to what is almost the same.
const std::vector<SplitScannerStrings>& alphabets() {
  static const std::vector<SplitScannerStrings> all = {
      // Contractions in any case, with U+017F (long s), U+212A (Kelvin) and U+2019.
      {"'", "'", "s", "S", "t", "T",      "re",     "R", "e",      "E",
       "v", "m", "L", "l", "d", "\u017F", "\u212A", "k", "\u2019", " "},
      // Digits of several scripts, and numbers that are none.
      {"0", "1", "9", "\u0663", "\u0967", "\u00BD", "\u00B2", "\u2167", "\u3007", "\u56DB", "\U0001D7D8", " ", ".",
       "a"},
      // White space, and what only looks like it.
      {" ",      " ",      "\r",     "\n",     "\r\n",   "\t",     "\v",
       "\f",     "\u00A0", "\u0085", "\u1680", "\u2003", "\u2028", "\u2029",
       "\u202F", "\u205F", "\u3000", "\u180E", "\u200B", "\uFEFF", std::string(1, '\0'),
       "\x1F",   "a",      "!",      "1",      "/"},
      // Small, large and other letters, and marks.
      {"a",          "Z",      "\u00E9", "\u00C9", "\u01C5", "\u02B0", "\u00AA", "\u05D0",
       "\u65E5",     "\u0301", "\u0903", "\u20DD", "\u0130", "\u00DF", "\u1E9E", "\U00010400",
       "\U00010428", "'s",     "'LL",    " ",      "1",      "-"},
      // Chinese, Japanese and Korean, at the ends of the ranges.
      {"\u4E00", "\u9FA5", "\u9FA6", "\u3040", "\u3041", "\u309F", "\u30A0", "\u30FF", "\u3100", "\u0800",
       "\u07FF", "\uAC00", "\uD7A3", "\uD7FF", "\u3002", "\uFF01", "\u3000", "\n",     "a",      "\U00020000"},
      // Punctuation and symbols of ASCII and beyond, emoji.
      {"!",          "\"",
       "#",          "$",
       "%",          "&",
       "(",          "+",
       "-",          "/",
       "<",          "=",
       "^",          "_",
       "`",          "|",
       "~",          "\\",
       "]",          "\u20AC",
       "\u00B4",     "\u00B7",
       "\u2014",     "\u00D7",
       "\U0001F600", "\U0001F468\u200D\U0001F469",
       "\uFE0F",     "\U0001F1E9",
       "\n",         "\r",
       " ",          "Ab",
       "7"},
      // Bytes that are no UTF-8: continuations, cut, overlong, surrogates, too large.
      {"\x80",
       "\xBF",
       "\xC0\xAF",
       "\xC3",
       "\xE2\x82",
       "\xED\xA0\x80",
       "\xF0\x9F\x98",
       "\xF4\x90\x80\x80",
       "\xF5",
       "\xFF",
       "\u00E9",
       "a",
       "A",
       "1",
       " ",
       "\n",
       "'",
       "'\xC5",
       "!",
       "\u0378",
       "\uE000",
       "\uFFFF",
       "\U0010FFFF"},
  };
  return all;
}

class SplitScanner : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!etna::kHasPcre2) GTEST_SKIP() << "this build has no PCRE2";
    for (const std::string_view pattern : scanned_patterns())
      regexes_.emplace_back(pattern, RegexSplitter(std::string(pattern), "test"));
  }

  void expect_agreement(std::string_view text) {
    for (const auto& [pattern, regex] : regexes_) ASSERT_TRUE(agree(pattern, regex, text));
  }

  std::vector<std::pair<std::string_view, RegexSplitter>> regexes_;
};

TEST_F(SplitScanner, AgreesWithPcre2OnRandomTexts) {
  std::mt19937 random(7);
  for (int i = 0; i < 300000 && !HasFatalFailure(); ++i) {
    const SplitScannerStrings& alphabet = alphabets()[random() % alphabets().size()];
    const SplitScannerStrings& other = alphabets()[random() % alphabets().size()];
    std::string text;
    for (std::size_t length = random() % 17; length > 0; --length) {
      const SplitScannerStrings& parts = random() % 4 == 0 ? other : alphabet;
      text += parts[random() % parts.size()];
    }
    expect_agreement(text);
  }
}

TEST_F(SplitScanner, AgreesWithPcre2OnAllShortTexts) {
  const SplitScannerStrings parts = {"a",      "A", "\u00AA", "\u0301", "1", " ",    "\n",
                                     "\u00A0", "'", "s",      "!",      "/", "\x01", "\xFF"};
  constexpr std::size_t kLongest = 4;
  for (std::size_t length = 0; length <= kLongest; ++length) {
    std::size_t count = 1;
    for (std::size_t i = 0; i < length; ++i) count *= parts.size();
    for (std::size_t i = 0; i < count && !HasFatalFailure(); ++i) {
      std::string text;
      for (std::size_t k = 0, rest = i; k < length; ++k, rest /= parts.size()) text += parts[rest % parts.size()];
      expect_agreement(text);
    }
  }
}

TEST_F(SplitScanner, AgreesWithPcre2OnEveryCharacter) {
  const auto is_letter = [](const char* text) { return !RegexSplitter(R"(\p{L})", "test").matches(text).empty(); };
  if (is_letter("\U00011F04") || !is_letter("\U0001DF00")) GTEST_SKIP() << "PCRE2 has another Unicode than 14";
  for (std::uint32_t point = 0; point < 0x110000 && !HasFatalFailure(); ++point) {
    if (point >= 0xD800 && point < 0xE000) continue;
    if (point > 0x32000 && point < 0xE0000 && point % 97 != 0) continue;  // no characters there
    std::string text = "a";
    for (const char* before : {"", "B", " ", "!", "1"}) {
      text += before;
      append_utf8(text, point);
    }
    expect_agreement(text);
  }
}

TEST_F(SplitScanner, AgreesWithPcre2OnWikiText) {
  const char* data = std::getenv("ETNA_TEST_DATA");
  if (data == nullptr) data = std::getenv("ETNA_DATA");
  if (data == nullptr) GTEST_SKIP() << "set ETNA_DATA to a folder with WikiText-2 (tools/get-wikitext2)";
  for (const char* split : {"valid", "test"}) {
    std::ifstream in(std::string(data) + "/wiki." + split + ".tokens", std::ios::binary);
    std::stringstream text;
    text << in.rdbuf();
    ASSERT_FALSE(text.str().empty()) << split;
    expect_agreement(text.str());
  }
}

TEST(SplitScanners, BeginAndEndWithNothing) {
  for (const std::string_view pattern : scanned_patterns())
    EXPECT_TRUE(scanner_matches(split_scanner(pattern), "").empty());
  EXPECT_EQ(split_scanner("a+"), nullptr);
}

TEST(SplitScanners, TakeALongSFromAContraction) {
  const std::string text = "it'\u017F it'S";
  SplitScannerStrings words;
  for_each_part(text, split_scanner(published::kLlama3),
                [&](std::string_view part, bool) { words.emplace_back(part); });
  EXPECT_EQ(words, (SplitScannerStrings{"it", "'\u017F", " it", "'S"}));
}

}  // namespace
