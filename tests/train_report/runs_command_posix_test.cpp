#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/train/internal/read_bytes.h>

#include "runs_command.h"

// A device that is always full, and names of files that other systems do not have.
namespace etna {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

TEST_F(RunsCommand, TextOfFilesCannotCommandTheTerminal) {
  add("evil\x1b]0;title\x07", 3, R"({"key\u001b[31m":"value\u202e","other":"\n"})");
  add("good", 3, "{}");
  for (const char* arguments : {"", "compare evil good", "plot evil", "plot --metric nothing evil", "--sort nothing"}) {
    const Result all = runs(arguments);
    EXPECT_THAT(all.output, AllOf(Not(HasSubstr("\x1b")), Not(HasSubstr("\x07")), Not(HasSubstr("\u202e"))));
  }
  EXPECT_THAT(runs("").output, HasSubstr("evil\\x1b]0;title\\x07"));
}

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
