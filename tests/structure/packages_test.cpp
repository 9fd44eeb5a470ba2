#include <regex>
#include <string>

#include <gtest/gtest.h>

#include <structure/source_tree.h>

// A small build (docs/platforms.md) has Eigen, fmt and nlohmann-json alone. Highway has a stand-in.
namespace etna::structure {
namespace {

bool is_of_the_library(const std::string& folder) {
  for (const char* name : {"device", "tensor", "autograd", "nn", "optim", "data", "models", "train"}) {
    if (folder == name) return true;
  }
  return false;
}

/// Whose includers are behind the condition.
bool is_included_behind_one(const std::string& path) {
  return path == "tensor/ops/matmul/gemm/internal/cpu/one_openmp_thread.h";
}

TEST(Packages, ThatASmallBuildLacksAreIncludedBehindACondition) {
  static const std::regex include(R"(^\s*#\s*include\s*[<"]([^>"]+)[>"])"),
      optional(R"((tbb|oneapi|spdlog|minja|glslang|CLI)/.*|xxhash\.h|pcre2\.h|utf8proc\.h|zlib\.h|png\.h)"
               R"(|jpeglib\.h|zip\.h|openssl/.*)");
  int seen = 0;
  for (const Source& source : sources({".h", ".cpp", ".inc"})) {
    if (!is_of_the_library(source.folder()) || source.path.starts_with("device/internal/vulkan/") ||
        is_included_behind_one(source.path))
      continue;
    int conditions = 0;
    for (std::size_t i = 0; i < source.lines.size(); ++i) {
      const std::string& line = source.lines[i];
      if (line.starts_with("#if")) ++conditions;
      if (line.starts_with("#endif")) --conditions;
      std::smatch match;
      if (!std::regex_search(line, match, include) || !std::regex_match(match[1].str(), optional)) continue;
      ++seen;
      EXPECT_GT(conditions, 0) << source.path << ":" << i + 1 << " includes " << match[1]
                               << ", which a small build lacks; put it behind ETNA_HAS_<PACKAGE>";
    }
  }
  EXPECT_GE(seen, 8) << "the tree was not read";
}

}  // namespace
}  // namespace etna::structure
