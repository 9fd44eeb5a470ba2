#include <etna/device/output_file.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <data/temporary_folder.h>

namespace etna::io {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(OutputFile, ReplacesOnlyAnEarlierOutputUnlessForced) {
  const TemporaryFolder folder;
  const std::filesystem::path other = folder.write("model.gguf", "GGUF"), own = folder.write("own", "{\"mark\": 1}");
  const auto asked = [&](const FilePath& path, bool force, const std::vector<FilePath>& read = {}) {
    return [=] { require_output({"--json", path, {"\"mark\""}}, force, read); };
  };
  EXPECT_THAT(asked(other, false),
              ThrowsMessage<OutputExists>(AllOf(HasSubstr("--json " + other.string() + ": is there already"),
                                                HasSubstr("replace it with --force"))));
  EXPECT_NO_THROW(asked(other, true)());
  EXPECT_NO_THROW(asked(own, false)());
  EXPECT_NO_THROW(asked(folder / "none", false)());
  EXPECT_NO_THROW(asked(folder.write("empty", ""), false)());
  EXPECT_NO_THROW(asked("/dev/null", false)());
  EXPECT_NO_THROW(asked("", false)()) << "not asked for";
  EXPECT_THROW(asked(folder / "none" / "below", true)(), FormatError);
  for (const auto& file : {own, other})
    EXPECT_THAT(asked(file, true, {file}), ThrowsMessage<OutputExists>(HasSubstr("is a file that is read")));
  std::filesystem::create_symlink(other, folder / "link");
  EXPECT_THROW(asked(folder / "link", false)(), OutputExists);
  EXPECT_THROW(require_output({"--out", own, {}}, false), OutputExists) << "no file is taken for an earlier one";
}

}  // namespace
}  // namespace etna::io
