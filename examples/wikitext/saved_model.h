#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include <etna/data/tokenizers/internal/tokenizer_state.h>
#include <etna/tensor/io/checkpoint.h>

#include "text_model.h"

/// Checkpoints of this program. One file has everything: the weights and the state of the run, the tokenizer, and in
/// the metadata the settings as TOML.
namespace wikitext {

/// Keys of the metadata.
inline constexpr const char* kSettingsKey = "settings";  ///< as TOML
inline constexpr const char* kPresetKey = "preset";
inline constexpr const char* kCorpusKey = "corpus";

struct SavedModel {
  std::unique_ptr<TextModel> model;
  std::shared_ptr<const etna::data::Tokenizer> tokenizer;
  Settings settings;
  std::string preset;
};

/// The best model of a run's folder, or else its latest; or that of a file.
/// @throws FormatError for files that are missing, damaged or inconsistent
SavedModel load_model(const std::filesystem::path& folder_or_file, etna::Device device);

/// The metadata of the newest whole checkpoint of a run's folder. @throws FormatError if there is none
etna::Metadata newest_metadata(const std::filesystem::path& folder);

}  // namespace wikitext
