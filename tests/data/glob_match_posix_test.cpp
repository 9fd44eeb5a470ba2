#include <etna/data/internal/glob_match.h>

#include <random>
#include <string>

#include <fnmatch.h>

#include <gtest/gtest.h>

namespace etna::data {
namespace {

TEST(GlobMatch, AgreesWithFnmatchOnRandomPatterns) {
  std::mt19937 random(7);
  const auto text = [&](const std::string& letters, std::size_t longest) {
    std::string made(random() % (longest + 1), ' ');
    for (char& c : made) c = letters[random() % letters.size()];
    return made;
  };
  int matched = 0;
  for (int i = 0; i < 300'000; ++i) {
    const std::string pattern = text("ab.*?/[]!-c", 7), name = text("abc.-]/", 6);
    if (pattern.find("[.") != std::string::npos) continue;  // names of characters, which no pattern of ours has
    const bool expected = fnmatch(pattern.c_str(), name.c_str(), FNM_PERIOD) == 0;
    matched += expected ? 1 : 0;
    ASSERT_EQ(glob_match(pattern, name), expected) << pattern << " and " << name;
  }
  EXPECT_GT(matched, 10'000);
}

}  // namespace
}  // namespace etna::data
