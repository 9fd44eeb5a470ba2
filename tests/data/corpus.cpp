#include <etna/data/corpus.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include <etna/device/error.h>

#include "temporary_folder.h"

namespace etna::data {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(Corpus, NumbersWordsOverTrainValidTest) {
  const TemporaryFolder folder;
  folder.write("wiki.train.tokens", " \n a b \n");
  folder.write("wiki.valid.tokens", "c a \n");
  folder.write("wiki.test.tokens", "d c \n");
  const Corpus corpus = read_wikitext(folder.path());
  EXPECT_THAT(corpus.train, ElementsAre(0, 1, 2, 0));
  EXPECT_THAT(corpus.valid, ElementsAre(3, 1, 0));
  EXPECT_THAT(corpus.test, ElementsAre(4, 3, 0));
  EXPECT_EQ(corpus.vocab.word(0), "<eos>");
  EXPECT_EQ(corpus.source, folder.path().string());
}

TEST(Corpus, TakesPlainTextFilesToo) {
  const TemporaryFolder folder;
  folder.write("train.txt", "a b");
  folder.write("valid.txt", "a");
  folder.write("test.txt", "b");
  EXPECT_EQ(read_wikitext(folder.path()).vocab.size(), 3u);
}

TEST(Corpus, SaysWhatIsWrongWithAFolderAndWhatToDo) {
  const TemporaryFolder folder;
  const auto refuses = [&](const std::filesystem::path& path, const std::string& why) {
    EXPECT_THAT([&] { read_wikitext(path); },
                ThrowsMessage<FormatError>(AllOf(HasSubstr(why), HasSubstr("tools/get-wikitext2"))));
  };
  refuses(folder / "none", "none: there is no such folder");
  refuses(folder.path(), "has neither wiki.train.tokens, wiki.train.raw nor train.txt");
  folder.write("wiki.train.tokens", "a b \n");
  refuses(folder.path(), "has neither wiki.valid.tokens, wiki.valid.raw nor valid.txt");
  folder.write("wiki.valid.tokens", "");
  folder.write("wiki.test.tokens", "a \n");
  refuses(folder.path(), "wiki.valid.tokens: is empty");
  folder.write("wiki.valid.tokens", "a b\nc d");
  refuses(folder.path(), "wiki.valid.tokens: is cut off");
  folder.write("wiki.valid.tokens", "a\xC3\n");
  refuses(folder.path(), "wiki.valid.tokens: is not UTF-8 text: invalid sequence at byte 1");
  folder.write("wiki.valid.tokens", std::string("a\0\n", 3));
  refuses(folder.path(), "wiki.valid.tokens: is not text: byte 1 is NUL");
  EXPECT_THAT([&] { read_wikitext(folder / "wiki.train.tokens"); }, ThrowsMessage<FormatError>(HasSubstr("--text")));
}

std::string numbered_lines(int count, const char* end) {
  std::string text;
  for (int i = 0; i < count; ++i) text += "line" + std::to_string(i) + end;
  return text;
}

TEST(Corpus, SplitsAnyTextByLines) {
  for (const char* end : {"\n", "\r\n", "\r"}) {
    const TemporaryFolder folder;
    const Corpus corpus = read_text(folder.write("a.txt", numbered_lines(45, end)));
    EXPECT_EQ(corpus.train.size(), 82u);
    EXPECT_EQ(corpus.valid.size(), 4u);
    EXPECT_EQ(corpus.test.size(), 4u);
    EXPECT_EQ(corpus.vocab.word(corpus.valid[0]), "line41");
    EXPECT_EQ(corpus.vocab.word(corpus.test[0]), "line43");
  }
}

TEST(Corpus, DropsAByteOrderMark) {
  EXPECT_TRUE(split_text("\uFEFF" + numbered_lines(20, "\n"), "a").vocab.find("line0"));
}

TEST(Corpus, RefusesTextItCannotSplit) {
  const TemporaryFolder folder;
  const auto refuses = [&](const std::string& bytes, const char* why) {
    EXPECT_THAT([&] { read_text(folder.write("a.txt", bytes)); }, ThrowsMessage<FormatError>(HasSubstr(why)));
  };
  refuses("", "a.txt: is empty");
  refuses("one line", "a.txt: has 1 line,");
  refuses(numbered_lines(19, "\n"), "a.txt: has 19 lines,");
  refuses(std::string(40, '\n'), "holds no words");
  refuses(std::string(40, '\0'), "byte 0 is NUL");
  EXPECT_THAT([&] { read_text(folder / "none"); }, ThrowsMessage<FormatError>(HasSubstr("no such file")));
  const TemporaryFolder none;
  EXPECT_THAT([&] { read_text(none.path()); }, ThrowsMessage<FormatError>(HasSubstr("has no text file")));
}

TEST(Corpus, ReadsTheTextsOfAFolderAsOne) {
  const TemporaryFolder folder;
  folder.write("b.txt", numbered_lines(20, "\n"));
  folder.write("a.md", "first\nopen end");
  folder.write("c.bin", std::string(9, '\0'));
  const Corpus corpus = read_text(folder.path());
  EXPECT_EQ(corpus.vocab.word(0), "first");
  EXPECT_EQ(corpus.train.size(), 2u + 3 + 18 * 2);
  EXPECT_EQ(corpus.vocab.word(corpus.test[0]), "line19");
  EXPECT_EQ(corpus.source, folder.path().string());
}

// Sum over the splits of id · (position + 1), modulo 2^64, as a straightforward reader in Python computes it.
std::uint64_t checksum(const Corpus& corpus) {
  std::uint64_t sum = 0, position = 0;
  for (const auto* ids : {&corpus.train, &corpus.valid, &corpus.test})
    for (const std::int32_t id : *ids) sum += static_cast<std::uint64_t>(id) * ++position;
  return sum;
}

TEST(Corpus, ReadsWikiText2Exactly) {
  const char* folder = std::getenv("ETNA_TEST_DATA");
  if (!folder) folder = std::getenv("ETNA_DATA");
  if (!folder) GTEST_SKIP() << "set ETNA_DATA to a folder with WikiText-2 (tools/get-wikitext2)";
  const Corpus corpus = read_wikitext(folder);
  EXPECT_EQ(corpus.train.size(), 2'088'628u);
  EXPECT_EQ(corpus.valid.size(), 217'646u);
  EXPECT_EQ(corpus.test.size(), 245'569u);
  EXPECT_EQ(corpus.vocab.size(), 33'278u);
  EXPECT_EQ(checksum(corpus), 11221846784001816u);
}

}  // namespace
}  // namespace etna::data
