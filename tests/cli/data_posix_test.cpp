#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/temporary_folder.h"
#include "data_program.h"

// Limits of a shell, signals and names of files that other systems do not have.
namespace etna {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

TEST(EtnaData, EscapesWhatWouldCommandATerminal) {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 60; ++i) text += "\x1b[31mred\xE2\x80\xAE\n";
  const fs::path odd = folder.write("odd\x1b[2J.txt", text);
  Result run = prepare(quoted(odd) + " --out " + quoted(folder / "out\x1b[0m"));
  ASSERT_EQ(run.code, 0) << run.output;
  run.output += etna("data inspect " + quoted(folder / "out\x1b[0m")).output;
  run.output += etna("data inspect " + quoted(folder / "out\x1b[0m" / "train.tokens")).output;
  run.output += etna("data inspect " + quoted(folder / "none\x1b[0m")).output;
  EXPECT_THAT(run.output, HasSubstr("\\x1b[31mred\\u202e\\n"));
  EXPECT_EQ(run.output.find('\x1b'), std::string::npos) << run.output;
}

TEST(EtnaData, AFullDiskLeavesNothingHalfWritten) {
  const TemporaryFolder folder;
  const std::string text = quoted(folder.write("a.txt", lines(40000)));
  // A limit on file sizes simulates a full disk: writes past 32 KiB fail.
  const auto limited = [&](const std::string& arguments) {
    return run_program("bash", "-c \"trap '' XFSZ; ulimit -f 32; exec " ETNA_PROGRAM " data prepare --tokenizer word " +
                                   arguments + "\"");
  };
  Result run = limited(text + " --out " + quoted(folder / "new" / "out"));
  EXPECT_EQ(run.code, 4) << run.output;
  EXPECT_THAT(run.output, HasSubstr("cannot be written: File too large"));
  EXPECT_FALSE(fs::exists(folder / "new"));
  ASSERT_EQ(prepare(text + " --out " + quoted(folder / "out")).code, 0);
  const std::string before = read(folder / "out" / "manifest.json");
  EXPECT_EQ(limited(text + " --force --out " + quoted(folder / "out")).code, 4);
  EXPECT_EQ(read(folder / "out" / "manifest.json"), before);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder / "out"), {}), 5);
  EXPECT_EQ(etna("data inspect --verify " + quoted(folder / "out")).code, 0);
}

TEST(EtnaData, LeavesNothingAfterCtrlC) {
  const TemporaryFolder folder;
  const fs::path text = folder.write("a.txt", "");
  {
    std::ofstream out(text);
    const std::string some = lines(20000);
    for (std::size_t bytes = 0; bytes < 100'000'000; bytes += some.size()) out << some;
  }
  // In the foreground it sends one signal; else a second one to the group, which ends the program at once.
  Result run = run_program("timeout", "--foreground --preserve-status -s INT 0.3 " ETNA_PROGRAM " data prepare " +
                                          quoted(text) + " --out " + quoted(folder / "new" / "out"));
  EXPECT_EQ(run.code, 130) << run.output;
  EXPECT_FALSE(fs::exists(folder / "new"));
}

TEST(EtnaData, AFullStandardOutputIsAnError) {
  const TemporaryFolder folder;
  ASSERT_EQ(prepare(quoted(folder.write("a.txt", lines(200))) + " --out " + quoted(folder / "out")).code, 0);
  EXPECT_EQ(etna("data inspect " + quoted(folder / "out") + " > /dev/full").code, 1);
}

}  // namespace
}  // namespace etna
