#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <string>

/// PEFT's adapter_config.json, which is stored next to the adapters. Internal.
namespace etna::models {

struct PeftConfig {
  double alpha = 0;                       ///< factor times rank, the same for all adapters
  bool magnitudes = false;                ///< DoRA
  bool in_by_out = false;                 ///< the model's own matrices are [in, out], like gpt2's
  std::set<std::string> targets = {};     ///< suffixes of module names
  std::set<std::string> parameters = {};  ///< suffixes of names of parameters that hold all experts
  std::string version = {};               ///< of PEFT; empty: not said
  std::map<std::string, std::int64_t> rank_of_module = {};
  std::set<std::int64_t> ranks = {};  ///< the allowed ranks: the default, and those of modules with their own
};

/// @param in_by_out whether the model's own matrices may be [in, out]
/// @throws FormatError naming the file, if it is damaged or uses unsupported features
PeftConfig read_peft_config(const std::filesystem::path& path, bool in_by_out);
/// @param config with at least one module @throws FormatError
void write_peft_config(const std::filesystem::path& path, const PeftConfig& config);

class Decoder;
/// Checks, without writing, that PEFT's files can hold the adapters that a decoder has. @throws FormatError
void check_peft_adapters(const Decoder& decoder);

}  // namespace etna::models
