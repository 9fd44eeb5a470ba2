#include <etna/data/text_sources.h>

#include <sys/stat.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include <etna/data/corpora/prepare_corpus.h>
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

TEST(TextSources, RefuseLinksThatLeadNowhere) {
  const TemporaryFolder folder;
  const auto refuses = [&](const std::string& why) {
    EXPECT_THAT([&] { find({folder.path()}); }, ThrowsMessage<FormatError>(HasSubstr(why)));
  };
  fs::create_symlink(folder / "nowhere", folder / "link.txt");
  refuses("link.txt: cannot be read: it is a link to nothing");
  fs::remove(folder / "link.txt");
  fs::create_symlink("self.txt", folder / "self.txt");
  refuses("self.txt: cannot be read: Too many levels");
}

TEST(TextSources, APipeIsNoText) {
  const TemporaryFolder folder;
  mkfifo((folder / "pipe").c_str(), 0600);
  const std::vector<fs::path> inputs{folder / "pipe"};
  EXPECT_THAT([&] { prepare_corpus(inputs, folder / "new", {}); },
              ThrowsMessage<FormatError>(HasSubstr("pipe: is no regular file")));
  EXPECT_FALSE(fs::exists(folder / "new"));
}

}  // namespace
}  // namespace etna::data
