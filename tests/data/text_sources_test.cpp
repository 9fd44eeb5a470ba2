#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include <etna/device/error.h>

#include "find_texts.h"
#include "temporary_folder.h"

namespace etna::data {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(TextSources, AreTheTextFilesBelowAFolderInOrder) {
  const TemporaryFolder folder;
  fs::create_directories(folder / "b" / "deep");
  fs::create_directory(folder / ".hidden");
  for (const char* name :
       {"c.txt", "a.md", "b/2.txt", "b/1.raw", "b/deep/x.tokens", ".d.txt", ".hidden/e.txt", "f.json"})
    folder.write(name, "text");
  EXPECT_THAT(names(find({folder.path()})), ElementsAre("a.md", "1.raw", "2.txt", "x.tokens", "c.txt"));
  EXPECT_THAT(names(find({folder.path()}, {"*.json", "c*"})), ElementsAre("c.txt", "f.json"));
  EXPECT_THAT(names(find({folder.path()}, {"b/*"})), ElementsAre("1.raw", "2.txt", "x.tokens"));
  EXPECT_THAT(names(find({folder / "f.json", folder / "b"})), ElementsAre("f.json", "1.raw", "2.txt", "x.tokens"))
      << "files that are named need not match";
}

TEST(TextSources, RefuseWhatIsNotThere) {
  const TemporaryFolder folder;
  const auto refuses = [&](const fs::path& input, const std::string& why) {
    EXPECT_THAT([&] { find({input}); }, ThrowsMessage<FormatError>(HasSubstr(why)));
  };
  refuses(folder / "none", "none: there is no such file or folder");
  refuses(folder.path(), "has no text file (*.txt, *.md, *.tokens, *.raw)");
  folder.write("empty.txt", "");
  refuses(folder.path(), "empty.txt is empty");
}

TEST(TextSources, FindTheSplitsOfWikiText) {
  const TemporaryFolder folder;
  EXPECT_EQ(find_split(folder.path(), "train"), "");
  folder.write("train.txt", "text");
  EXPECT_EQ(find_split(folder.path(), "train"), folder / "train.txt");
  folder.write("wiki.train.raw", "text");
  EXPECT_EQ(find_split(folder.path(), "train"), folder / "wiki.train.raw");
  folder.write("wiki.train.tokens", "text");
  EXPECT_EQ(find_split(folder.path(), "train"), folder / "wiki.train.tokens");
}

}  // namespace
}  // namespace etna::data
