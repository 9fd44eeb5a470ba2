#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <regex>
#include <set>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <runner/run_tests.h>
#include <structure/public_headers.h>
#include <structure/source_tree.h>

namespace etna::structure {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// What an installed file includes that programs could not find: headers that are not installed, those of other
/// packages, and what a macro names. Tables include each other by their places, since shaders include them, too.
std::vector<std::string> unfit_includes(const Source& source) {
  static const std::regex include(R"(^\s*#\s*(include|include_next|import)\b\s*(.*)$)"), ours("<etna/([^>]+)>.*"),
      standard(R"(<[a-z_]+>.*)"), table(R"re("([^"]+\.def)".*)re");
  std::vector<std::string> unfit;
  for (const std::string& line : source.lines) {
    std::smatch match, target;
    if (!std::regex_match(line, match, include)) continue;
    const std::string what = match[2];
    const auto beside = [&](const std::string& path) {
      return (std::filesystem::path(source.path).parent_path() / path).lexically_normal().generic_string();
    };
    const bool fits = std::regex_match(what, standard) ||
                      (std::regex_match(what, target, ours) && is_installed(target[1])) ||
                      (std::regex_match(what, target, table) && is_installed(beside(target[1])));
    if (!fits) unfit.push_back(line);
  }
  return unfit;
}

TEST(PublicHeaders, IncludeWhatIsInstalledOnly) {
  int files = 0;
  for (const Source& source : sources({".h", ".def"})) {
    if (!is_installed(source.path) || needs_eigen(source.path)) continue;
    ++files;
    EXPECT_THAT(unfit_includes(source), IsEmpty()) << source.path << " is installed";
    for (const std::string& line : source.lines)
      EXPECT_FALSE(line.starts_with("#include") && line.find("/eigen.h>") != std::string::npos)
          << source.path << ": programs without Eigen could not include it";
  }
  EXPECT_GT(files, 60) << "the tree was not read";
}

TEST(PublicHeaders, UnfitIncludesAreFound) {
  const auto unfit = [](const char* line) { return unfit_includes({"nn/x.h", {line}}); };
  EXPECT_THAT(unfit("#include <etna/nn/module.h>"), IsEmpty());
  EXPECT_THAT(unfit("#include <etna/tables/elementwise.def>"), IsEmpty());
  EXPECT_THAT(unfit("#include \"../tables/activations.def\""), IsEmpty());
  EXPECT_THAT(unfit("#include <iosfwd>  // for str()"), IsEmpty());
  for (const char* line :
       {"#include <etna/nn/internal/module_hooks.h>", "  # include <etna/nn/internal/module_hooks.h>",
        "#include <etna/tensor/ops/x/internal/table.def>", "#include \"../tables/other.def\"", "#include \"module.h\"",
        "#include ETNA_TABLE", "#include <etna/shaders/shaders.h>", "#include <fmt/format.h>", "#include <unistd.h>"})
    EXPECT_THAT(unfit(line), ElementsAre(line));
}

/// The macros that a text defines.
std::set<std::string> macros_of(const Source& source) {
  static const std::regex define(R"(^\s*#\s*define\s+(\w+))");
  std::set<std::string> names;
  for (const std::string& line : source.lines) {
    std::smatch match;
    if (std::regex_search(line, match, define)) names.insert(match[1]);
  }
  return names;
}

// A program that includes an installed header has no macro of an internal one: what uses it would not compile there.
TEST(PublicHeaders, UseNoMacroOfInternalHeaders) {
  static const std::regex word(R"(\bETNA_\w+)");
  std::map<std::string, std::string> internal;
  std::set<std::string> installed;
  const std::vector<Source> all = sources({".h", ".def"});
  for (const Source& source : all) {
    const bool shown = is_installed(source.path);
    for (const std::string& name : macros_of(source)) {
      if (shown)
        installed.insert(name);
      else if (source.path.find("/internal/") != std::string::npos)
        internal.emplace(name, source.path);
    }
  }
  for (const Source& source : all) {
    if (!is_public(source.path)) continue;
    for (const std::string& line : source.lines) {
      for (std::sregex_iterator at(line.begin(), line.end(), word), end; at != end; ++at) {
        const auto found = internal.find(at->str());
        EXPECT_TRUE(found == internal.end() || installed.contains(at->str()))
            << source.path << " is installed and uses " << at->str() << " of " << found->second << ", which is not";
      }
    }
  }
}

TEST(PublicHeaders, AreAtMost130) {
  int headers = 0;
  for (const Source& source : sources({".h"})) headers += is_public(source.path) ? 1 : 0;
  EXPECT_GT(headers, 60) << "the tree was not read";
  EXPECT_LE(headers, 130) << "declare it in the header of its subject, or in a folder internal/";
}

/// Adds a header of the tree and all that it includes.
void add_closure(const std::map<std::string, Source>& tree, const std::string& path, std::set<std::string>& reached) {
  static const std::regex include("#include <etna/([^>]+\\.h)>.*");
  const auto found = tree.find(path);
  if (found == tree.end() || !reached.insert(path).second) return;
  for (const std::string& line : found->second.lines) {
    std::smatch match;
    if (std::regex_match(line, match, include)) add_closure(tree, match[1], reached);
  }
}

TEST(PublicHeaders, AreAllInEtnaHButThoseForKernelsEigenAndPlots) {
  std::map<std::string, Source> tree;
  for (const Source& source : sources({".h"})) tree.emplace(source.path, source);
  std::set<std::string> reached;
  add_closure(tree, "etna.h", reached);
  std::vector<std::string> left_out;
  for (const auto& [path, source] : tree) {
    if (is_public(path) && !reached.contains(path)) left_out.push_back(path);
  }
  EXPECT_THAT(left_out, ElementsAre("device/arguments.h", "device/kernel.h", "tensor/eigen.h", "tensor/ops/kernel.h",
                                    "train/report.h"));
}

// Examples are projects that build against an installed package.
TEST(PublicHeaders, AreEnoughForExamples) {
  int files = 0;
  for (const Source& source : sources({".h", ".cpp"})) {
    if (source.folder() != "examples") continue;
    ++files;
    static const std::regex ours(R"(^\s*#\s*include\s*<etna/([^>]+)>.*)");
    for (const std::string& line : source.lines) {
      std::smatch match;
      if (!std::regex_match(line, match, ours)) continue;
      EXPECT_TRUE(is_installed(match[1])) << source.path << ": " << line << " is not installed";
    }
  }
  EXPECT_GT(files, 20) << "the tree was not read";
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

TEST(PublicHeaders, CompileAloneWithTheStandardLibraryOnly) {
  std::vector<std::string> headers;
  for (const Source& source : sources({".h"})) {
    if (is_public(source.path) && !needs_eigen(source.path)) headers.push_back(source.path);
  }
  ASSERT_GT(headers.size(), 20u);
  // A second each.
  if (!test_all()) std::erase_if(headers, [kept = 0](const std::string&) mutable { return kept++ % 16 != 0; });
  EXPECT_EQ(compile("-I" ETNA_BINARY_DIR "/include", headers, ETNA_BINARY_DIR "/public_headers.txt"), "");
}

}  // namespace
}  // namespace etna::structure
