#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <etna/tensor/ops.h>
#include <etna/train/checkpointer.h>

namespace etna::training {

/// A state that is checked at a glance.
struct Counter {
  std::int64_t step = 0;
  Tensor state = zeros({64});
  std::vector<CheckpointItem> items() { return {{"step", step}, {"state", state}}; }
  void go_to(std::int64_t next) {
    step = next;
    state.fill_(static_cast<double>(next));
  }
};

inline std::vector<std::string> file_names(const std::vector<FilePath>& files) {
  std::vector<std::string> all;
  for (const FilePath& file : files) all.push_back(std::filesystem::path(file).filename().string());
  return all;
}

}  // namespace etna::training
