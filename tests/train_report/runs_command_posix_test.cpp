#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/train/read_bytes.h>

#include "runs_command.h"

// A device that is always full, which not every system has.
namespace etna {
namespace {

using testing::HasSubstr;

TEST_F(RunsCommand, APictureOnAFullDiskIsAnError) {
  add_three();
  const Result full = runs("plot aa11 --svg /dev/full");
  EXPECT_EQ(full.code, 4);
  EXPECT_THAT(full.output, HasSubstr("No space left on device"));
}

TEST_F(RunsCommand, AFullStandardOutputIsAnError) {
  add_three();
  for (const char* arguments : {"", "--json", "compare aa11 bb33", "plot aa11"}) {
    const std::string said = (folder_ / "said").string();
    const Result full = runs(std::string(arguments) + " >/dev/full 2>'" + said + "' #");
    EXPECT_EQ(full.code, 1) << arguments;
    EXPECT_THAT(training::read_bytes(said), HasSubstr("standard output cannot be written: No space left on device"));
  }
}

}  // namespace
}  // namespace etna
