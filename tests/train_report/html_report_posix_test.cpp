#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <data/temporary_folder.h>
#include <etna/device/error.h>
#include <etna/train/report.h>

// Links and a device that is always full, which not every system has.
namespace etna::training {
namespace {

TEST(HtmlReport, SaysSoWhereTheDiskIsFull) {
  TemporaryFolder folder;
  std::filesystem::create_symlink("/dev/full", folder / "report.html");
  EXPECT_THAT([&] { write_report(folder.path(), {}); },
              testing::ThrowsMessage<FormatError>(testing::HasSubstr("No space left on device")));
}

}  // namespace
}  // namespace etna::training
