#include <sys/stat.h>

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

TEST(TextSources, LeaveOutEmptyFilesAndSecondNamesAndSaySo) {
  const TemporaryFolder folder;
  folder.write("a.txt", "text");
  folder.write("empty.txt", "");
  fs::create_symlink(folder / "a.txt", folder / "z.txt");
  mkfifo((folder / "pipe.txt").c_str(), 0600);
  const TextSources found = find({folder.path(), folder / "a.txt"});
  EXPECT_THAT(names(found), ElementsAre("a.txt"));
  EXPECT_THAT(found.left_out, ElementsAre(HasSubstr("empty.txt is empty"), HasSubstr("pipe.txt is not a regular file"),
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

}  // namespace
}  // namespace etna::data
