#include <etna/data/internal/words.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include <etna/data/text_file.h>

namespace etna::data {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> tokens(std::string_view text) {
  Vocabulary vocab;
  std::vector<std::int32_t> ids;
  append_lines(text, vocab, ids);
  std::vector<std::string> words;
  for (auto id : ids) words.emplace_back(vocab.word(id));
  return words;
}

TEST(Words, EndEveryLineWithEos) {
  EXPECT_THAT(tokens(" a b \n\n c\n"), ElementsAre("a", "b", "<eos>", "<eos>", "c", "<eos>"));
  EXPECT_THAT(tokens("a\nb"), ElementsAre("a", "<eos>", "b", "<eos>"));
  EXPECT_THAT(tokens("a\n "), ElementsAre("a", "<eos>", "<eos>"));
  EXPECT_THAT(tokens(""), ElementsAre());
}

TEST(Words, ReadEveryKindOfLineEnd) {
  EXPECT_THAT(tokens("a\r\nb\rc\n\rd"), ElementsAre("a", "<eos>", "b", "<eos>", "c", "<eos>", "<eos>", "d", "<eos>"));
}

// The characters for which Python's str.isspace() holds, except line ends: they separate words, not lines.
TEST(Words, PartAtUnicodeWhiteSpace) {
  for (const char* space : {"\t",     "\v",     "\f",     "\x1C",   "\x1D",   "\x1E",   "\x1F",   " ",      "\u0085",
                            "\u00A0", "\u1680", "\u2000", "\u2001", "\u2002", "\u2003", "\u2004", "\u2005", "\u2006",
                            "\u2007", "\u2008", "\u2009", "\u200A", "\u2028", "\u2029", "\u202F", "\u205F", "\u3000"}) {
    const std::string text = std::string("a") + space + "b" + space;
    EXPECT_THAT(tokens(text), ElementsAre("a", "b", "<eos>")) << testing::PrintToString(std::string(space));
    EXPECT_FALSE(is_word(text));
  }
}

TEST(Words, KeepCharactersThatOnlyLookLikeSpace) {
  for (const char* word : {"\u200B", "\u2060", "\uFEFF", "\u180E", "£", "ÿ", "ሴ", "€", "あ", "𝄞", "\x1B"}) {
    EXPECT_THAT(tokens(std::string("a") + word + "b"), ElementsAre(std::string("a") + word + "b", "<eos>"));
    EXPECT_TRUE(is_word(word));
  }
}

TEST(Words, EncodePromptsWithUnkForTheUnknown) {
  Vocabulary vocab;
  for (const char* word : {"<eos>", "<unk>", "the", "river"}) vocab.add(word);
  EXPECT_THAT(encode("the river\nthe delta", vocab), ElementsAre(2, 3, 0, 2, 1));
}

TEST(Words, DecodeToReadableText) {
  const auto round_trip = [](std::string_view text) {
    Vocabulary vocab;
    std::vector<std::int32_t> ids;
    append_lines(text, vocab, ids);
    return decode(ids, vocab);
  };
  EXPECT_EQ(round_trip(" = = A ship = = \n"), "= = A ship = =\n");
  EXPECT_EQ(round_trip("a three @-@ masted ship of 4 @,@ 250 tons , 7 @.@ 5 m ( 25 ft ) long .\n"),
            "a three-masted ship of 4,250 tons, 7.5 m (25 ft) long.\n");
  EXPECT_EQ(round_trip("he said \" never \" and \" no \" ; it was n't the ship 's\n\" a\n\" b\n"),
            "he said \"never\" and \"no\"; it wasn't the ship's\n\"a\n\"b\n");
  EXPECT_EQ(round_trip("@ @@ @-@"), "@ @@-\n");
}

TEST(Words, Utf8IsCheckedAsPythonChecksIt) {
  for (const char* good : {"", "abc", "é", "€", "\xED\x9F\xBF", "\xEE\x80\x80", "\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF"})
    EXPECT_EQ(find_invalid_utf8(good), std::string_view::npos) << testing::PrintToString(std::string(good));
  for (const char* bad : {"\x80", "\xC0\x80", "\xC1\xBF", "\xC3", "\xC3(", "\xE0\x9F\xBF", "\xE2\x82", "\xED\xA0\x80",
                          "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF"})
    EXPECT_EQ(find_invalid_utf8(std::string("0123456789") + bad), 10u) << testing::PrintToString(std::string(bad));
}

}  // namespace
}  // namespace etna::data
