#include <cstdio>
#include <cstdlib>
#include <regex>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <runner/run_tests.h>
#include <structure/public_headers.h>
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
                               R"re((==|!=)\s*"(llama|mistral|qwen|gemma|phi|gpt|starcoder)[0-9-]*")re");
  int files = 0;
  for (const Source& source : sources({".h", ".cpp"})) {
    if (source.folder() == "tests" || source.path.starts_with("models/internal/architecture.")) continue;
    ++files;
    for (std::size_t i = 0; i < source.lines.size(); ++i)
      EXPECT_FALSE(std::regex_search(source.lines[i], asks)) << source.path << ":" << i + 1 << ": " << source.lines[i];
  }
  EXPECT_GT(files, 40) << "the tree was not read";
}

/// Compiles a list of headers, each alone, and returns the compiler's complaints.
std::string compile(const std::string& options, const std::vector<std::string>& headers, const std::string& list) {
  {
    std::ofstream out(list);
    for (const std::string& header : headers) out << ETNA_SOURCE_DIR << "/" << header << "\n";
  }
  std::string command = fmt::format(
      "xargs -a '{}' -n 4 -P 2 '{}' -std=c++20 -fsyntax-only -Wall -Wextra -Wno-pragma-once-outside-header {} -x c++ "
      "2>&1",
      list, ETNA_CXX_COMPILER, options);
  std::string said;
  std::FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return "cannot run " + command;
  char buffer[4096];
  while (std::size_t n = std::fread(buffer, 1, sizeof buffer, pipe)) said.append(buffer, n);
  return pclose(pipe) == 0 ? "" : said + "\n" + command;
}

TEST(Files, PublicHeadersCompileAloneWithTheStandardLibraryOnly) {
  std::vector<std::string> headers;
  for (const Source& source : sources({".h"})) {
    if (needs_eigen(source.path)) continue;
    if (is_public(source.path)) headers.push_back(source.path);
    for (const std::string& line : source.lines) {
      if (!is_public(source.path) || !line.starts_with("#include <")) continue;
      bool ours = line.starts_with("#include <etna/"),
           standard = line.find('/') == std::string::npos && line.find(".h>") == std::string::npos;
      EXPECT_TRUE(ours || standard) << source.path << ": " << line;
      if (!ours || line.find(".def>") != std::string::npos) continue;
      const std::size_t begin = line.find("<etna/") + 6;
      const std::string target = line.substr(begin, line.find('>') - begin);
      EXPECT_FALSE(needs_eigen(target)) << source.path << ": programs without Eigen could not include it";
      EXPECT_TRUE(is_public(target)) << source.path << " is installed and includes " << target << ", which is not";
    }
  }
  ASSERT_GT(headers.size(), 20u);
  // A second each.
  if (!test_all()) std::erase_if(headers, [kept = 0](const std::string&) mutable { return kept++ % 16 != 0; });
  EXPECT_EQ(compile("-I" ETNA_BINARY_DIR "/include", headers, ETNA_BINARY_DIR "/public_headers.txt"), "");
}

}  // namespace
}  // namespace etna::structure
