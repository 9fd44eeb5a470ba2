#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include <CLI/CLI.hpp>

#include <etna/models/generator.h>
#include <etna/models/model_file.h>

#include "answer_form.h"

/// `etna run`, `etna chat`, `etna bench`, `etna perplexity` and `etna convert`: language models at work.
namespace etna::cli {

/// What all of them take.
struct ModelOptions {
  std::string model, tokenizer, adapter, draft, device, cache = "f16", receipt;
  std::int64_t context = 0, guesses = 0;
  int gpus = 0;  ///< that the model is divided over; 0: as many as there are processes
  std::string gpu_layers = "auto", experts = "gpu";
  std::int64_t logits = 0;  ///< rows that the command holds at once; 0: one a sequence
  bool strict = false, quiet = false, force = false;
  std::vector<std::string> stacked;  ///< files of adapters of which each sequence chooses one
  bool all_slots = false;            ///< GeneratorOptions::all_slots

  /// Whether the model guesses by a head of its own, in place of a draft model.
  bool mtp() const { return draft == "mtp"; }
  bool has_draft_model() const { return !draft.empty() && !mtp(); }
};

struct TextOptions : ModelOptions {
  std::string prompt, prompt_file, system, format;
  std::int64_t max_tokens = 256;
  bool endless = false, no_special = false;
  models::SamplingOptions sampling;
  std::vector<std::string> stop;
  FormOptions form;
  CLI::Option *seed = nullptr, *given_prompt = nullptr;  ///< to ask whether the user gave them
};

/// A model on its device, with a generator for it.
struct LoadedModel {
  models::Model model, draft;  ///< the draft's decoder is null where there is none
  Device device;
  double seconds = 0;  ///< to load
  std::unique_ptr<models::Generator> generator;

  /// Tokens that a sequence has at most.
  std::int64_t room() const;
};

/// What load_model() takes: of a training run's folder, the best checkpoint.
std::filesystem::path model_path(const std::filesystem::path& path);
/// Files that the options name to be read.
std::vector<FilePath> models_of(const ModelOptions& options);
/// @throws DeviceError
Device device_of(const ModelOptions& options);
/// Of a tokenizer's own file, or of a model that has one. @throws FormatError
std::shared_ptr<const data::Tokenizer> open_tokenizer(const std::filesystem::path& path);
/// @throws FormatError, DeviceError
LoadedModel open_model(const ModelOptions& options, std::int64_t slots = 1);
/// "120 of 160 guesses were right"; empty where nothing was guessed.
std::string guesses_line(const models::GenerationTimes& times);
/// @throws FormatError if the model came without a tokenizer
const data::Tokenizer& tokenizer_of(const LoadedModel& model, const std::string& path);

}  // namespace etna::cli
