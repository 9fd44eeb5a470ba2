#include <etna/data/internal/text_blocks.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include <etna/data/internal/words.h>
#include <etna/device/error.h>

#include "temporary_folder.h"

namespace etna::data {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::vector<std::string> blocks_of(const std::filesystem::path& file, std::size_t bytes) {
  std::vector<std::string> all;
  TextBlocks blocks(file, "", bytes);
  while (const auto block = blocks.next()) all.emplace_back(*block);
  return all;
}

std::string joined(const std::vector<std::string>& parts) {
  std::string all;
  for (const std::string& part : parts) all += part;
  return all;
}

TEST(TextBlocks, AreTheTextCutBeforeWhiteSpaceThatFollowsAWord) {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 400; ++i)
    text += std::string("wörd水") + std::to_string(i * i) +
            (i % 7 == 0   ? "\r\n"
             : i % 5 == 0 ? "\n\n  "
             : i % 3      ? " "
                          : "　 ");
  const auto file = folder.write("a.txt", text);
  for (const std::size_t bytes : {1u, 16u, 17u, 31u, 64u, 1000u, 100000u}) {
    const auto blocks = blocks_of(file, bytes);
    EXPECT_EQ(joined(blocks), text) << bytes;
    EXPECT_EQ(blocks.size() > 1, bytes < text.size());
    for (std::size_t i = 1; i < blocks.size(); ++i) {
      EXPECT_TRUE(std::string(" \r\n").find(blocks[i][0]) != std::string::npos) << bytes << ": " << blocks[i];
      // "\u3000" is white space too, and "\r\n" is one line break.
      EXPECT_FALSE(blocks[i - 1].ends_with("　") || blocks[i - 1].ends_with(" ") || blocks[i - 1].ends_with("\r"));
    }
  }
}

TEST(TextBlocks, GrowForAWordThatIsLonger) {
  const TemporaryFolder folder;
  const std::string text = "a " + std::string(1000, 'x') + " b";
  EXPECT_EQ(joined(blocks_of(folder.write("a.txt", text), 16)), text);
  const std::string without(5000, 'x');
  EXPECT_EQ(blocks_of(folder.write("b.txt", without), 16), std::vector<std::string>{without});
}

TEST(TextBlocks, HashAndCountTheBytesOfTheFileWithoutItsByteOrderMark) {
  const TemporaryFolder folder;
  const auto file = folder.write("a.txt", "\xEF\xBB\xBFone two");
  TextBlocks small(file, "", 16), large(file);
  std::string text;
  while (const auto block = small.next()) text += *block;
  EXPECT_EQ(text, "one two");
  EXPECT_EQ(small.bytes(), 10);
  EXPECT_TRUE(small.open_line());
  EXPECT_EQ(large.next(), "one two");
  EXPECT_EQ(large.next(), std::nullopt);
  EXPECT_EQ(large.next(), std::nullopt);
  EXPECT_EQ(small.hash(), large.hash());
  EXPECT_TRUE(blocks_of(folder.write("b.txt", "\xEF\xBB\xBF"), 16).empty());
  TextBlocks none(folder.write("c.txt", ""));
  EXPECT_EQ(none.next(), std::nullopt);
  EXPECT_FALSE(none.open_line());
}

TEST(TextBlocks, RefuseWhatIsNoTextAndSayWhere) {
  const TemporaryFolder folder;
  const auto refuses = [&](const std::string& bytes, const std::string& why) {
    for (const std::size_t block : {16u, 100u, 100000u})
      EXPECT_THAT([&] { blocks_of(folder.write("a.txt", bytes), block); }, ThrowsMessage<FormatError>(HasSubstr(why)))
          << block;
  };
  const std::string words = "some words come first, so that it is not the first block ";
  refuses(words + std::string("a\0b", 3), "is not text: byte " + std::to_string(words.size() + 1) + " is NUL");
  for (const char* bad : {"\xFF", "\xC0\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\x80", "\xE2\x82"})
    for (const std::string end : {"", " x", " and so on, for a while, until the block ends"})
      refuses(words + bad + end, "invalid sequence at byte " + std::to_string(words.size()));
  EXPECT_THROW(TextBlocks(folder / "none"), FormatError);
  EXPECT_THROW(TextBlocks(folder.path()), FormatError);
}

TEST(TextBlocks, TakeCharactersThatLieAcrossTheEndOfWhatWasRead) {
  const TemporaryFolder folder;
  for (const char* character : {"é", "水", "🙂"}) {
    for (std::size_t before = 0; before < 20; ++before) {
      const std::string text = std::string(before, 'x') + character + character + " " + character;
      EXPECT_EQ(joined(blocks_of(folder.write("a.txt", text), 16)), text);
    }
  }
}

}  // namespace
}  // namespace etna::data
