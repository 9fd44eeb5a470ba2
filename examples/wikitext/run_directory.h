#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include <nlohmann/json.hpp>

#include <etna/data/vocabulary.h>
#include <etna/nn/language_model.h>

#include "train.h"

/// The files of a run: model.safetensors, config.json, vocabulary.txt, summary.json, metrics.csv.
namespace wikitext {

/// The weights, vocabulary and sizes of one model.
struct Checkpoint {
  std::unique_ptr<etna::nn::LanguageModel> model;
  etna::data::Vocabulary vocabulary;
  std::string preset;
  std::int64_t batch = 16;
};

/// Creates the folder and a test file in it, so that a wrong --out fails before the training and not after it.
/// @throws FormatError if that fails
void require_writable(const std::filesystem::path& folder);

/// Replaces each file atomically. @throws FormatError if one cannot be written
void save_checkpoint(const std::filesystem::path& folder, const etna::nn::LanguageModel& model,
                     const etna::data::Vocabulary& vocabulary, const std::string& preset, std::int64_t batch);

/// @throws FormatError for files that are missing, damaged or inconsistent
Checkpoint load_checkpoint(const std::filesystem::path& folder, etna::Device device);

void save_metrics(const std::filesystem::path& file, const History& history);

/// @throws FormatError if it cannot be written; an existing file is then unchanged
void save_text(const std::filesystem::path& file, const std::string& text);

}  // namespace wikitext
