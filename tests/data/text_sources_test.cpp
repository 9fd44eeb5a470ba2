#include <etna/data/text_sources.h>

#include <sys/stat.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include <etna/device/error.h>

#include "temporary_folder.h"

namespace etna::data {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TextSources find(const std::vector<fs::path>& inputs, const std::vector<std::string>& globs = text_globs()) {
  return find_text_files(inputs, globs);
}

std::vector<std::string> names(const TextSources& found) {
  std::vector<std::string> all;
  for (const fs::path& file : found.files) all.push_back(file.filename().string());
  return all;
}

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

TEST(TextSources, LeaveOutEmptyFilesAndSecondNamesAndSaySo) {
  const TemporaryFolder folder;
  folder.write("a.txt", "text");
  folder.write("empty.txt", "");
  fs::create_symlink(folder / "a.txt", folder / "z.txt");
  mkfifo((folder / "pipe.txt").c_str(), 0600);
  const TextSources found = find({folder.path(), folder / "a.txt"});
  EXPECT_THAT(names(found), ElementsAre("a.txt"));
  EXPECT_THAT(found.left_out, ElementsAre(HasSubstr("empty.txt is empty"), HasSubstr("pipe.txt is no regular file"),
                                          AllOf(HasSubstr("z.txt is the same file as"), HasSubstr("a.txt")),
                                          HasSubstr("a.txt is the same file as")));
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
  fs::create_symlink(folder / "nowhere", folder / "link.txt");
  refuses(folder.path(), "link.txt: cannot be read: it is a link to nothing");
  fs::remove(folder / "link.txt");
  fs::create_symlink("self.txt", folder / "self.txt");
  refuses(folder.path(), "self.txt: cannot be read: Too many levels");
}

TEST(TextSources, RefuseALoopOfFolders) {
  const TemporaryFolder folder;
  fs::create_directories(folder / "a" / "b");
  folder.write("a/text.txt", "text");
  fs::create_directory_symlink(folder / "a", folder / "a" / "b" / "up");
  EXPECT_THAT([&] { find({folder.path()}); },
              ThrowsMessage<FormatError>(AllOf(HasSubstr("a/b/up: is a loop"), HasSubstr("leads back to"))));
  fs::remove(folder / "a" / "b" / "up");
  // The same folder twice, side by side, is no loop; its files are the same.
  fs::create_directory_symlink(folder / "a", folder / "z");
  EXPECT_THAT(names(find({folder.path()})), ElementsAre("text.txt"));
}

TEST(TextSources, FindTheSplitsOfWikiText) {
  const TemporaryFolder folder;
  EXPECT_EQ(find_split(folder.path(), "train"), "");
  folder.write("train.txt", "text");
  EXPECT_EQ(find_split(folder.path(), "train").filename(), "train.txt");
  folder.write("wiki.train.raw", "text");
  EXPECT_EQ(find_split(folder.path(), "train").filename(), "wiki.train.raw");
  folder.write("wiki.train.tokens", "text");
  EXPECT_EQ(find_split(folder.path(), "train").filename(), "wiki.train.tokens");
}

}  // namespace
}  // namespace etna::data
