#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include <etna/data/vocabulary.h>
#include <etna/tensor/io/checkpoint.h>

#include "text_model.h"

/// Checkpoints of this program. One file has everything: the weights and the state of the run, the words, and in the
/// metadata the settings as TOML.
namespace wikitext {

/// The words as an object of a checkpoint.
struct SavedWords {
  etna::data::Vocabulary& vocabulary;

  std::map<std::string, etna::Tensor> state_dict() const;
  /// Replaces an empty vocabulary. @throws FormatError for other words than a vocabulary that is not empty has
  void load_state_dict(const std::map<std::string, etna::Tensor>& state) const;
};

/// Keys of the metadata.
inline constexpr const char* kSettingsKey = "settings";  ///< as TOML
inline constexpr const char* kPresetKey = "preset";
inline constexpr const char* kCorpusKey = "corpus";

struct SavedModel {
  std::unique_ptr<TextModel> model;
  etna::data::Vocabulary vocabulary;
  Settings settings;
  std::string preset;
};

/// The best model of a run's folder, or else its latest; or that of a file.
/// @throws FormatError for files that are missing, damaged or inconsistent
SavedModel load_model(const std::filesystem::path& folder_or_file, etna::Device device);

/// The metadata of the newest whole checkpoint of a run's folder. @throws FormatError if there is none
etna::Metadata newest_metadata(const std::filesystem::path& folder);

}  // namespace wikitext
