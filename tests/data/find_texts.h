#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <etna/data/internal/text_sources.h>

namespace etna::data {

inline TextSources find(const std::vector<FilePath>& inputs, const std::vector<std::string>& globs = text_globs()) {
  return find_text_files(inputs, globs);
}

inline std::vector<std::string> names(const TextSources& found) {
  std::vector<std::string> all;
  for (const std::filesystem::path file : found.files) all.push_back(file.filename().string());
  return all;
}

}  // namespace etna::data
