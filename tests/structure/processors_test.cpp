#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iterator>
#include <map>
#include <set>
#include <sstream>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <runner/run_tests.h>
#include <structure/source_tree.h>

// Sources that use Highway or intrinsics must compile for every processor, not only for the one that runs the tests.
namespace etna::structure {
namespace {

/// A command's output, and whether it succeeded.
std::pair<std::string, bool> output_of(const std::string& command) {
  std::string said;
  std::FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  if (pipe == nullptr) return {"cannot run " + command, false};
  char buffer[4096];
  while (std::size_t n = std::fread(buffer, 1, sizeof buffer, pipe)) said.append(buffer, n);
  return {said, pclose(pipe) == 0};
}

/// The path between <> or "" in an #include, or empty.
std::string included(const std::string& line) {
  std::size_t at = line.find_first_not_of(" \t");
  if (at == std::string::npos || line[at] != '#') return "";
  at = line.find_first_not_of(" \t", at + 1);
  if (at == std::string::npos || line.compare(at, 7, "include") != 0) return "";
  std::size_t begin = line.find_first_of("<\"", at), end = line.find_last_of(">\"");
  return begin != std::string::npos && end > begin ? line.substr(begin + 1, end - begin - 1) : "";
}

/// Paths of all sources that include a wanted header, directly or through the tree's headers.
std::set<std::string> that_include(const std::function<bool(const std::string&)>& wanted) {
  const std::vector<Source> all = sources({".h", ".cpp", ".inc"});
  std::set<std::string> found;
  for (bool grown = true; grown;) {
    grown = false;
    for (const Source& source : all) {
      if (found.contains(source.path)) continue;
      for (const std::string& line : source.lines) {
        std::string what = included(line);
        if (what.starts_with("etna/")) what = what.substr(5);
        if (wanted(what) || found.contains(what) || found.contains("tests/" + what)) {
          grown = found.insert(source.path).second;
          break;
        }
      }
    }
  }
  std::erase_if(found, [](const std::string& path) { return !path.ends_with(".cpp"); });
  return found;
}

/// The build's command for a source without the source, its output and the processor. It starts with the compiler,
/// without launchers before it.
std::string flags_of(const std::string& command, const std::string& file) {
  std::istringstream words(command);
  std::string kept;
  for (std::string word; words >> word;) {
    if (kept.empty() && word != ETNA_CXX_COMPILER) continue;
    if (word == "-o" || word == "-MF" || word == "-MT")
      words >> word;
    else if (word != "-c" && word != "-MD" && word != file && !word.starts_with("-march=") &&
             !word.starts_with("-mtune="))
      kept += word + " ";
  }
  return kept;
}

constexpr const char* kProcessors[] = {"x86-64",         "x86-64-v2",     "x86-64-v3",  "x86-64-v4",      "haswell",
                                       "skylake-avx512", "cascadelake",   "cooperlake", "icelake-server", "alderlake",
                                       "sapphirerapids", "graniterapids", "znver1",     "znver2",         "znver3",
                                       "znver4",         "znver5"};

TEST(Processors, AllCompileWhatIncludesHighwayOrIntrinsics) {
#if !defined(__x86_64__)
  GTEST_SKIP() << "the processors named here are x86-64";
#endif
  if (!test_all()) GTEST_SKIP() << "compiles for each kind of processor in ./run test --all";
  std::ifstream in(ETNA_BINARY_DIR "/compile_commands.json");
  ASSERT_TRUE(in) << "the build has written no compile_commands.json";
  std::map<std::string, std::string> commands;
  for (const auto& entry : nlohmann::json::parse(in)) {
    const auto file = entry["file"].get<std::string>();
    commands.emplace(std::filesystem::path(file).lexically_relative(ETNA_SOURCE_DIR).generic_string(),
                     flags_of(entry["command"].get<std::string>(), file));
  }
  const auto is_highway = [](const std::string& what) { return what.starts_with("hwy/"); };
  const std::set<std::string> highway = that_include(is_highway);
  const std::set<std::string> files =
      that_include([&](const std::string& what) { return is_highway(what) || what.ends_with("intrin.h"); });
  ASSERT_GE(files.size(), 4u) << "the tree was not read";

  // Highway's choice of targets, with each source's flags. Processors with the same choice are compiled for once: all
  // would take minutes.
  std::map<std::string, std::string> kinds;
  std::string alike, unknown, list;
  for (const std::string name : kProcessors) {
    if (!output_of(fmt::format("'{}' -march={} -E -x c++ /dev/null", ETNA_CXX_COMPILER, name)).second) {
      unknown += " " + name;
      continue;
    }
    std::string kind;
    for (const std::string& file : highway) {
      if (!commands.contains(file)) continue;  // not part of this build
      auto [chosen, fine] = output_of(fmt::format(
          "printf '#include <hwy/detect_targets.h>\\nHWY_TARGETS, HWY_STATIC_TARGET\\n' | {} -march={} -E -P -x c++ -",
          commands[file], name));
      EXPECT_TRUE(fine) << file << " for " << name << ": " << chosen.substr(0, 400);
      kind += chosen.substr(chosen.find_last_of('\n', chosen.size() - 2) + 1);
    }
    if (auto [at, added] = kinds.emplace(kind, name); !added) alike += fmt::format(" {} (as {})", name, at->second);
  }
  ASSERT_GE(kinds.size(), 2u) << "Highway's detect_targets.h was not read";
  std::printf("compiled as another:%s; unknown to this compiler:%s\n", alike.c_str(), unknown.c_str());

  for (const auto& [kind, name] : kinds) {
    for (const std::string& file : files) {
      if (file.starts_with("tests/") || !commands.contains(file)) continue;
      list += fmt::format("{} {}/{} -fsyntax-only -march={}\n", commands[file], ETNA_SOURCE_DIR, file, name);
    }
  }
  const std::string at = ETNA_BINARY_DIR "/processors.txt";
  std::ofstream(at) << list;
  auto [said, fine] = output_of(fmt::format(
      "tr '\\n' '\\0' <'{}' | xargs -0 -n 1 -P 2 sh -c 'eval \"$0\" || {{ echo \"failed: $0\"; exit 1; }}'", at));
  EXPECT_TRUE(fine) << said.substr(0, 4000);
}

}  // namespace
}  // namespace etna::structure
