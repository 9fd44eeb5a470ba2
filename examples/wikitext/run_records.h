#pragma once

#include <filesystem>
#include <string>

#include <nlohmann/json.hpp>

#include <etna/data/corpus.h>
#include <etna/train/train.h>

#include "report.h"
#include "settings.h"

namespace wikitext {

/// What is written about a run: its folder's files and its line in the list of runs (`etna runs`).
class RunRecords {
 public:
  /// @param folder empty: only the list of runs @param before metadata of the checkpoint that a resumed run goes on
  /// from
  RunRecords(std::filesystem::path folder, const etna::Metadata& before, std::string preset, std::string corpus,
             const SettingList& settings, etna::Device device);

  /// Of each checkpoint.
  const etna::Metadata& metadata() const { return metadata_; }
  /// Writes config.toml and environment.json.
  void begin(const etna::training::RunFolder& folder) const;
  /// Adds the run to the list. A list that cannot be written is said, and is no error.
  void end(etna::training::Outcome outcome, const Summary& summary) const;
  /// Writes summary.json, loss.svg and report.html, draws the loss in the terminal and says where everything is.
  /// @param program as the user called it
  void finish(const etna::training::RunFolder& folder, const std::string& program, const Summary& summary,
              const nlohmann::json& result, const std::string& passage) const;

 private:
  std::filesystem::path folder_;
  std::string preset_, corpus_, time_, config_toml_;
  nlohmann::json config_;
  etna::Device device_;
  etna::Metadata metadata_;
};

/// The step that a folder's summary.json is of; negative where there is none that can be read.
std::int64_t reported_step(const std::filesystem::path& folder);

/// Refuses checkpoints that belong to another run than the folder or than each other. @throws FormatError
void require_own_checkpoints(const std::filesystem::path& folder);

}  // namespace wikitext
