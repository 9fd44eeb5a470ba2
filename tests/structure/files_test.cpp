#include <regex>

#include <gtest/gtest.h>

#include <structure/source_tree.h>

namespace etna::structure {
namespace {

TEST(Files, StayBelowFiveHundredLines) {
  for (const Source& source : sources({".h", ".cpp", ".c", ".comp", ".glsl", ".def"})) {
    EXPECT_LE(source.lines.size(), 500u) << source.path << " holds more than one idea";
  }
}

TEST(Files, HeadersAreGuarded) {
  for (const Source& source : sources({".h"})) {
    bool guarded = false;
    for (const std::string& line : source.lines) guarded = guarded || line == "#pragma once";
    EXPECT_TRUE(guarded) << source.path << " lacks #pragma once";
  }
}

TEST(Files, ShadersOpenWithWhatBoundsThem) {
  int shaders = 0;
  for (const Source& source : sources({".comp"})) {
    if (source.folder() != "shaders") continue;  // a program's shader has one variant, named after its file
    ++shaders;
    ASSERT_FALSE(source.lines.empty()) << source.path;
    std::size_t prose = 0, variants = 0;
    for (const std::string& line : source.lines) {
      if (line.empty() || line.starts_with("#version") || line.starts_with("#extension")) continue;
      if (!line.starts_with("//")) break;
      if (line.starts_with("// variant: "))
        ++variants;
      else if (!line.starts_with("// requires: "))
        prose += line.size();
    }
    EXPECT_GT(prose, 40u) << source.path << " does not say at its top what it computes and what bounds it";
    EXPECT_GT(variants, 0u) << source.path << " names no variant at its top";
  }
  EXPECT_GT(shaders, 0);
}

// A family of models is a row of a table: nothing else compares a name with an architecture's
// (docs/adding-an-architecture.md).
TEST(Files, OnlyTheTableOfArchitecturesNamesThem) {
  static const std::regex asks(R"re(architecture\s*(==|!=|\.starts_with\()\s*"|)re"
                               R"re((==|!=)\s*"(llama|mistral|qwen|gemma|phi|gpt|starcoder|bitnet)[0-9-]*")re");
  int files = 0;
  for (const Source& source : sources({".h", ".cpp"})) {
    if (source.folder() == "tests" || source.path.starts_with("models/internal/architecture.")) continue;
    ++files;
    for (std::size_t i = 0; i < source.lines.size(); ++i)
      EXPECT_FALSE(std::regex_search(source.lines[i], asks)) << source.path << ":" << i + 1 << ": " << source.lines[i];
  }
  EXPECT_GT(files, 40) << "the tree was not read";
}

}  // namespace
}  // namespace etna::structure
