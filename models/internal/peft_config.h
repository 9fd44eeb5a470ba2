#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <string>

/// The adapter_config.json beside adapters that PEFT wrote. Internal.
namespace etna::models {

struct PeftConfig {
  double alpha = 0;                    ///< of all adapters: factor times rank
  bool in_by_out = false;              ///< the model's own matrices are [in, out], as gpt2's
  std::set<std::string> targets = {};  ///< ends of modules' names
  std::map<std::string, std::int64_t> rank_of_module = {};
  std::set<std::int64_t> ranks = {};  ///< that a file allows: of most modules, and of those with one of their own
};

/// @param in_by_out whether the model may say so of its matrices
/// @throws FormatError naming the file for one that is damaged or asks for what does not run here
PeftConfig read_peft_config(const std::filesystem::path& path, bool in_by_out);
/// @param config with at least one module @throws FormatError
void write_peft_config(const std::filesystem::path& path, const PeftConfig& config);

}  // namespace etna::models
