#include <csignal>

#include <sys/resource.h>
#include <sys/stat.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/tensor/io/safetensors.h>
#include <etna/tensor/ops.h>

#include "data/temporary_folder.h"
#include "tensor/file_bytes.h"

namespace etna {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(Safetensors, AFullDiskLeavesTheOldFileAndNothingElse) {
  TemporaryFolder folder;
  auto path = folder / "checkpoint";
  save_safetensors(path, NamedTensors{{"x", ones({3})}});
  std::string old = bytes_of(path);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit small = before;
  small.rlim_cur = 4096;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  EXPECT_THAT(
      [&] {
        save_safetensors(path, NamedTensors{{"x", ones({100000})}});
      },
      ThrowsMessage<FormatError>(HasSubstr("cannot be written: File too large; what was there is unchanged")));
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(bytes_of(path), old);
  EXPECT_EQ(files_in(folder), 1U);
}

TEST(Safetensors, PermissionsAndLinksOutliveTheSave) {
  TemporaryFolder folder;
  auto path = folder.write("real", "old");
  chmod(path.c_str(), 0640);
  std::filesystem::create_symlink("real", folder / "link");
  save_safetensors(folder / "link", NamedTensors{{"x", ones({3})}});
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link"));
  EXPECT_EQ(load_safetensors(path).at("x").numel(), 3);
  struct stat info {};
  stat(path.c_str(), &info);
  EXPECT_EQ(info.st_mode & 0777, 0640U);
}

}  // namespace
}  // namespace etna
