#include <etna/data/corpus.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include <etna/device/error.h>

#include "runner/system_words.h"
#include "temporary_folder.h"

namespace etna::data {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(Vocabulary, NumbersWordsInTheOrderOfFirstUse) {
  Vocabulary vocab;
  EXPECT_EQ(vocab.add("b"), 0);
  EXPECT_EQ(vocab.add("a"), 1);
  EXPECT_EQ(vocab.add("b"), 0);
  EXPECT_EQ(vocab.size(), 2u);
  EXPECT_EQ(vocab.word(1), "a");
  EXPECT_EQ(vocab.find("c"), std::nullopt);
  EXPECT_THAT([&] { vocab.word(2); }, ThrowsMessage<FormatError>(HasSubstr("id 2 is outside its 2 words")));
  EXPECT_THAT([&] { vocab.word(-1); }, ThrowsMessage<FormatError>(HasSubstr("id -1")));
}

TEST(Vocabulary, FindsEveryWordAfterItHasGrown) {
  Vocabulary vocab;
  for (int i = 0; i < 50'000; ++i) ASSERT_EQ(vocab.add(std::to_string(i) + "w"), i);
  const Vocabulary copy = vocab;
  for (int i = 0; i < 50'000; ++i) ASSERT_EQ(copy.find(std::to_string(i) + "w"), i);
  EXPECT_EQ(copy.word(49'999), "49999w");
}

TEST(Vocabulary, TakesUnknownWordsForUnkWhereItHasOne) {
  Vocabulary vocab;
  vocab.add("a");
  EXPECT_THAT([&] { vocab.id("zebra"); }, ThrowsMessage<FormatError>(HasSubstr("'zebra'")));
  const auto unk = vocab.add("<unk>");
  EXPECT_EQ(vocab.id("zebra"), unk);
  EXPECT_EQ(vocab.id("a"), 0);
}

TEST(Vocabulary, SurvivesSavingAndLoading) {
  const TemporaryFolder folder;
  Vocabulary vocab;
  for (const char* word : {"<eos>", "=", "é", "\"", "@-@", "–"}) vocab.add(word);
  vocab.save(folder / "vocab.txt");
  EXPECT_EQ(Vocabulary::load(folder / "vocab.txt"), vocab);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

TEST(Vocabulary, KeepsTheOldFileWhereSavingFails) {
  const TemporaryFolder folder;
  Vocabulary good, bad;
  good.add("word");
  good.save(folder / "vocab.txt");
  bad.add("two words");
  EXPECT_THAT([&] { bad.save(folder / "vocab.txt"); }, ThrowsMessage<FormatError>(HasSubstr("white space")));
  EXPECT_EQ(Vocabulary::load(folder / "vocab.txt"), good);
  EXPECT_THAT([&] { good.save(folder / "missing" / "vocab.txt"); },
              ThrowsMessage<FormatError>(HasSubstr(std::string("vocab.txt: cannot be written: ") + kNoSuchFile)));
}

TEST(Vocabulary, SaysSoWhereTheDiskIsFull) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "there is no /dev/full";
  const TemporaryFolder folder;
  Vocabulary vocab;
  vocab.add("word");
  // A device is written in place.
  std::filesystem::create_symlink("/dev/full", folder / "vocab.txt");
  EXPECT_THAT([&] { vocab.save(folder / "vocab.txt"); },
              ThrowsMessage<FormatError>(HasSubstr("No space left on device")));
}

TEST(Vocabulary, RefusesDamagedFiles) {
  const TemporaryFolder folder;
  const auto refuses = [&](const std::string& bytes, const char* why) {
    EXPECT_THAT([&] { Vocabulary::load(folder.write("v", bytes)); }, ThrowsMessage<FormatError>(HasSubstr(why)))
        << bytes;
  };
  refuses("", "empty");
  refuses("a\nb\nc", "cut off");
  refuses("a\nb\na\n", "v:3: the word 'a' is already on line 1");
  refuses("a\n\nb\n", "v:2: a vocabulary has exactly one word a line");
  refuses("a\nb c\n", "v:2:");
  refuses("a\r\nb\r\n", "v:1:");
  refuses(std::string("a\nb\0\n", 5), "byte 3 is NUL");
  refuses("a\n\xFF\n", "not UTF-8 text: invalid sequence at byte 2");
  EXPECT_THAT([&] { Vocabulary::load(folder / "none"); },
              ThrowsMessage<FormatError>(HasSubstr("there is no such file")));
  EXPECT_THAT([&] { Vocabulary::load(folder.path()); }, ThrowsMessage<FormatError>(HasSubstr("is a folder")));
}

}  // namespace
}  // namespace etna::data
