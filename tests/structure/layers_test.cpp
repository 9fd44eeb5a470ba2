#include <map>
#include <regex>

#include <gtest/gtest.h>

#include <structure/source_tree.h>

// The layers of docs/architecture.md: dependencies go down only.
namespace etna::structure {
namespace {

/// Lower layers may not include higher ones. Of two folders on one layer neither includes the other. Programs are on
/// top and independent of each other.
const std::map<std::string, int> kStoreys = {
    {"tables", 0},  {"shaders", 1}, {"device", 2}, {"tensor", 3},    {"autograd", 4}, {"dist", 5},
    {"nn", 6},      {"optim", 6},   {"data", 7},   {"models", 8},    {"train", 9},    {"serve", 10},
    {"etna.h", 10}, {"cli", 11},    {"bench", 11}, {"examples", 11}, {"web", 11},     {"tests", 11}};

/// The path of an included file of the tree, relative to the root; empty for other files.
std::string target_of(const Source& from, const std::string& line) {
  static const std::regex include(R"(^\s*#\s*include\s*([<"])([^>"]+)[>"])");
  std::smatch match;
  if (!std::regex_search(line, match, include)) return "";
  std::string what = match[2];
  if (what.starts_with("etna/")) return what.substr(5);
  namespace fs = std::filesystem;
  const fs::path root = ETNA_SOURCE_DIR;
  if (match[1] == "<") return fs::exists(root / "tests" / what) ? "tests/" + what : "";
  fs::path beside = (root / from.path).parent_path() / what;
  if (fs::exists(beside))
    return fs::weakly_canonical(beside).lexically_relative(fs::weakly_canonical(root)).generic_string();
  return fs::exists(root / what) ? what : "";
}

TEST(Layers, IncludesGoDownOnly) {
  int arrows = 0;
  for (const Source& source : sources({".h", ".cpp", ".c", ".comp", ".glsl", ".def", ".in"})) {
    auto from = kStoreys.find(source.folder());
    ASSERT_NE(from, kStoreys.end()) << source.path << " lies in no storey of the house";
    for (std::size_t i = 0; i < source.lines.size(); ++i) {
      std::string target = target_of(source, source.lines[i]);
      if (target.empty()) continue;
      std::string folder = target.substr(0, target.find('/'));
      auto to = kStoreys.find(folder);
      ASSERT_NE(to, kStoreys.end()) << source.path << ":" << i + 1 << " includes " << target
                                    << ", which lies in no storey";
      ++arrows;
      bool below = to->second < from->second || folder == source.folder();
      EXPECT_TRUE(below) << source.path << ":" << i + 1 << " includes " << target << ": " << folder << " is not below "
                         << source.folder();
    }
  }
  EXPECT_GT(arrows, 100) << "the tree was not read";
}

}  // namespace
}  // namespace etna::structure
