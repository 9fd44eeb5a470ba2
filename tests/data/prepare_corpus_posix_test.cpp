#include <sys/stat.h>

#include <filesystem>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/data/corpora/prepared_corpus.h>
#include <etna/device/error.h>

#include "temporary_folder.h"

// Pipes and links, which other systems do not let everybody make.
namespace etna::data {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(PrepareCorpus, APipeIsNoText) {
  const TemporaryFolder folder;
  mkfifo((folder / "pipe").c_str(), 0600);
  const std::vector<FilePath> inputs{folder / "pipe"};
  EXPECT_THAT([&] { prepare_corpus(inputs, folder / "new", {}); },
              ThrowsMessage<FormatError>(HasSubstr("pipe: is not a regular file")));
  EXPECT_FALSE(fs::exists(folder / "new"));
}

TEST(PrepareCorpus, IsNotPutAmongItsTextsThroughALink) {
  const TemporaryFolder folder;
  fs::create_directory(folder / "texts");
  folder.write("texts/a.txt", "text\n");
  fs::create_symlink(folder / "texts", folder / "link");
  const std::vector<FilePath> inputs{folder / "texts"};
  PrepareOptions options;
  options.overwrite = true;
  EXPECT_THAT([&] { prepare_corpus(inputs, folder / "link" / "x", options); },
              ThrowsMessage<FormatError>(HasSubstr("lies in")));
  EXPECT_FALSE(fs::exists(folder / "texts" / "x"));
}

}  // namespace
}  // namespace etna::data
