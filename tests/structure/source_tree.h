#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace etna::structure {

/// A source file of the tree: its path and its lines.
struct Source {
  std::string path;  ///< relative to the root, with '/'
  std::vector<std::string> lines;
  std::string folder() const { return path.substr(0, path.find('/')); }
  bool is_header() const { return path.ends_with(".h"); }
};

inline constexpr const char* kFolders[] = {"tables", "shaders",  "device", "tensor", "autograd", "nn",
                                           "optim",  "data",     "models", "train",  "serve",    "cli",
                                           "bench",  "examples", "tests",  "tools",  "web"};

/// Every file in the folders of the tree (and etna.h) with one of these extensions.
inline std::vector<Source> sources(const std::vector<std::string>& endings) {
  namespace fs = std::filesystem;
  const fs::path root = ETNA_SOURCE_DIR;
  std::vector<fs::path> files = {root / "etna.h"};
  for (const char* folder : kFolders) {
    if (!fs::exists(root / folder)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
      if (entry.is_regular_file()) files.push_back(entry.path());
    }
  }
  std::vector<Source> all;
  for (const fs::path& file : files) {
    bool wanted = false;
    for (const std::string& ending : endings) wanted = wanted || file.extension() == ending;
    if (!wanted) continue;
    Source source{file.lexically_relative(root).generic_string(), {}};
    std::ifstream in(file);
    for (std::string line; std::getline(in, line);) source.lines.push_back(line);
    all.push_back(std::move(source));
  }
  return all;
}

}  // namespace etna::structure
