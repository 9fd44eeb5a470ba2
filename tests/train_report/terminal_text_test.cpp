#include <string>

#include <gtest/gtest.h>

#include <etna/train/internal/markup.h>
#include <etna/train/progress.h>

namespace etna::training {
namespace {

TEST(TerminalText, ShowsControlCharactersAsEscapes) {
  EXPECT_EQ(printable("plain text, 100 % \\ as it is"), "plain text, 100 % \\ as it is");
  EXPECT_EQ(printable("\x1b]0;title\x07"), "\\x1b]0;title\\x07");
  EXPECT_EQ(printable("a\nb\tc\rd\x7f"), "a\\nb\\tc\\rd\\x7f");
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m"),
            "\\u009b31m");
  EXPECT_EQ(printable(std::string_view("\0", 1)), "\\x00");
}

TEST(TerminalText, LineBreaksOfLinesStay) {
  EXPECT_EQ(printable_lines("one\n\ntwo\tthree\x1b\n"), "one\n\ntwo\\tthree\\x1b");
  EXPECT_EQ(printable_lines(""), "");
}

TEST(TerminalText, ShowsWhatHidesOrTurnsTextAsEscapes) {
  EXPECT_EQ(printable("a\u202e"
                      "cba"),
            "a\\u202ecba");
  EXPECT_EQ(printable("\u2066\u200b\ufeff\u2028"), "\\u2066\\u200b\\ufeff\\u2028");
  EXPECT_EQ(printable("\U000e0041"), "\\U000e0041");
}

TEST(TerminalText, ShowsBytesThatAreNotUtf8AsEscapes) {
  EXPECT_EQ(printable("caf\xe9"), "caf\\xe9");
  EXPECT_EQ(printable("\xc0\x80"), "\\xc0\\x80");                  // overlong
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");         // a surrogate
  EXPECT_EQ(printable("\xf5\x80\x80\x80").substr(0, 4), "\\xf5");  // above U+10FFFF
  EXPECT_EQ(printable("\xe2\x82"), "\\xe2\\x82");                  // cut
  EXPECT_EQ(printable("é€😀"), "é€😀");
}

TEST(TerminalText, AsciiTerminalsGetEscapesOnly) {
  EXPECT_EQ(printable("naïve €", Charset::ascii), "na\\u00efve \\u20ac");
  EXPECT_EQ(shortened("a long name", 5, Cut::end, Charset::ascii), "a lo~");
}

TEST(TerminalText, CountsColumns) {
  EXPECT_EQ(columns("abc"), 3u);
  EXPECT_EQ(columns("日本語"), 6u);
  EXPECT_EQ(columns("한글 ｆ"), 7u);
  EXPECT_EQ(columns("e\u0301"), 1u);
  EXPECT_EQ(columns("😀"), 2u);
  EXPECT_EQ(columns(""), 0u);
}

TEST(TerminalText, CutsToColumns) {
  EXPECT_EQ(shortened("short", 5), "short");
  EXPECT_EQ(shortened("longer", 5), "long…");
  EXPECT_EQ(shortened("/home/user/runs/demo", 10, Cut::begin), "…runs/demo");
  EXPECT_EQ(shortened("日本語", 5), "日本…");
  EXPECT_EQ(shortened("日本語", 4), "日…");  // half a character is none
  EXPECT_EQ(shortened("anything", 0), "");
  EXPECT_EQ(shortened("", 3), "");
  EXPECT_EQ(shortened("ab\x1b[31m", 5), "ab…");  // escapes stay whole
  EXPECT_EQ(padded("ab", 4), "ab  ");
  EXPECT_EQ(padded("ab", 4, true), "  ab");
  EXPECT_EQ(padded("abcdef", 4, true, Cut::begin), "…def");
}

TEST(TerminalText, NeverTakesMoreColumnsThanGiven) {
  std::string all;
  for (int i = 0; i < 256; ++i) all += static_cast<char>(i);
  all += "日本語e\u0301\u202e";
  for (std::size_t width = 0; width < 60; ++width) {
    for (const Cut cut : {Cut::end, Cut::begin}) EXPECT_LE(columns(shortened(all, width, cut)), width);
  }
}

TEST(TerminalText, EscapesHeapsOfCombiningMarks) {
  std::string heap = "a";
  for (int i = 0; i < 1000; ++i) heap += "\u0301";
  EXPECT_LT(shortened(heap, 20).size(), 100u);
  EXPECT_EQ(printable("a\u0301\u0302"), "a\u0301\u0302");
  EXPECT_EQ(printable("\u0301"), "\\u0301");  // on nothing
}

TEST(TerminalText, HugeTextsAreCutQuickly) {
  const std::string huge(100'000'000, 'x');
  EXPECT_EQ(shortened(huge, 10), "xxxxxxxxx…");
  EXPECT_EQ(shortened(huge, 10, Cut::begin), "…xxxxxxxxx");
}

TEST(Markup, EscapesWhatMarksUp) {
  EXPECT_EQ(escape_markup("<script>alert(\"1\" & '2')</script>"),
            "&lt;script&gt;alert(&quot;1&quot; &amp; &#39;2&#39;)&lt;/script&gt;");
  EXPECT_EQ(escape_markup("tab\tline\né"), "tab\tline\né");
}

TEST(Markup, ReplacesWhatXmlForbids) {
  EXPECT_EQ(escape_markup(std::string_view("a\0\x1b\xff\xef\xbf\xbf", 7)), "a\ufffd\ufffd\ufffd\ufffd");
}

TEST(Markup, Base64IsOfRfc4648) {
  EXPECT_EQ(base64(""), "");
  EXPECT_EQ(base64("f"), "Zg==");
  EXPECT_EQ(base64("fo"), "Zm8=");
  EXPECT_EQ(base64("foo"), "Zm9v");
  EXPECT_EQ(base64("foob"), "Zm9vYg==");
  EXPECT_EQ(base64("\xff\xfe\xfd"), "//79");
}

}  // namespace
}  // namespace etna::training
