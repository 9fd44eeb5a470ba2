#include <etna/device/file_path.h>

#include <filesystem>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

namespace etna {
namespace {

namespace fs = std::filesystem;

const FilePath& file_path(const FilePath& path) { return path; }
fs::path standard_path(const fs::path& path) { return path; }

TEST(FilePath, IsMadeOfTextsAndOfStandardPaths) {
  EXPECT_TRUE(FilePath().empty());
  EXPECT_EQ(file_path("runs/first").string(), "runs/first");
  EXPECT_EQ(file_path(std::string("runs/first")).string(), "runs/first");
  EXPECT_EQ(file_path(std::string_view("runs/first")).string(), "runs/first");
  EXPECT_EQ(file_path(fs::path("runs/first")).string(), "runs/first");
  EXPECT_STREQ(file_path("runs/first").c_str(), "runs/first");
}

TEST(FilePath, IsAStandardPathAgain) {
  const fs::path original(u8"Läufe/erster");
  const FilePath path = original;
  EXPECT_EQ(path.string(), "Läufe/erster");
  const fs::path back = path;
  EXPECT_EQ(back, original);
  EXPECT_EQ(standard_path(path), original);
  EXPECT_EQ(path, original);
  EXPECT_EQ(original, path);
  EXPECT_NE(path, "Läufe/zweiter");
  EXPECT_LT(path, FilePath("Läufe/zweiter"));
}

TEST(FilePath, JoinsAsStandardPathsDo) {
  for (const char* folder : {"", "runs", "runs/", "/"}) {
    for (const char* name : {"", "loss.svg", "first/loss.svg", "/tmp"}) {
      const fs::path joined = fs::path(folder) / name;
      EXPECT_EQ(FilePath(folder) / name, joined);
      EXPECT_EQ(FilePath(folder) / fs::path(name), joined);
      EXPECT_EQ(fs::path(folder) / FilePath(name), joined);
    }
  }
}

}  // namespace
}  // namespace etna
