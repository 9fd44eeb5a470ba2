#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include <nlohmann/json.hpp>

#include <etna/data/vocabulary.h>
#include <etna/nn/language_model.h>

#include "train.h"

/// What a run leaves behind: model.safetensors, config.json, vocabulary.txt, summary.json, metrics.csv.
namespace wikitext {

/// Weights, words and sizes that belong together.
struct Checkpoint {
  std::unique_ptr<etna::nn::LanguageModel> model;
  etna::data::Vocabulary vocabulary;
  std::string preset;
  std::int64_t batch = 16;
};

/// Makes the folder and tries to write there, so that a wrong --out is known before the training and not after it.
/// @throws FormatError where that fails
void require_writable(const std::filesystem::path& folder);

/// Each file is replaced whole or not at all. @throws FormatError where one cannot be written
void save_checkpoint(const std::filesystem::path& folder, const etna::nn::LanguageModel& model,
                     const etna::data::Vocabulary& vocabulary, const std::string& preset, std::int64_t batch);

/// @throws FormatError for files that are missing, damaged, or do not fit each other
Checkpoint load_checkpoint(const std::filesystem::path& folder, etna::Device device);

void save_metrics(const std::filesystem::path& file, const History& history);

/// @throws FormatError where it cannot be written; an older file is then left as it was
void save_text(const std::filesystem::path& file, const std::string& text);

}  // namespace wikitext
