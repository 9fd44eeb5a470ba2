#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include <etna/data/tokenizers/tokenizer.h>
#include <etna/tensor/io/checkpoint.h>

#include "text_model.h"

/// Checkpoints of this program. One file has everything: the weights and the state of the run, the tokenizer, and in
/// the metadata the settings as TOML.
namespace wikitext {

/// The tokenizer as an object of a checkpoint: words as "text", one a line; byte pairs as "json".
struct SavedTokenizer {
  std::shared_ptr<const etna::data::Tokenizer>& tokenizer;

  std::map<std::string, etna::Tensor> state_dict() const;
  /// Sets a tokenizer that is null. @throws FormatError for another tokenizer than one that is not
  void load_state_dict(const std::map<std::string, etna::Tensor>& state) const;
};

/// @throws FormatError where the corpus was made by another tokenizer than the run. @param run for the message
void require_same(const etna::data::Tokenizer& corpus, const etna::data::Tokenizer& trained, const std::string& run);

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
