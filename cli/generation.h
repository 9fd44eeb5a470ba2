#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include <etna/models/encoder.h>
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
  std::string mmproj;                ///< the file of the vision tower; empty: the model's folder
  bool sees = false;                 ///< the vision tower is on the device, too

  /// Whether the model guesses by a head of its own, in place of a draft model.
  bool mtp() const { return draft == "mtp"; }
  bool has_draft_model() const { return !draft.empty() && !mtp(); }
};

struct TextOptions : ModelOptions {
  std::vector<std::string> images;  ///< files of pictures in the prompt
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

/// --image and --mmproj.
void add_image_options(CLI::App& app, TextOptions& options);
/// --mmproj.
void add_mmproj_option(CLI::App& app, ModelOptions& options);
/// The file or the folder that has the vision tower of a model. @throws FormatError for a model that sees nothing
std::filesystem::path vision_path(const ModelOptions& options);
/// The tower on the model's device. @throws FormatError as vision_path(), and for a tower of another model
std::unique_ptr<models::VisionModel> open_vision(const ModelOptions& options, const LoadedModel& model);
/// The pictures of a prompt, and the tower that reads them.
class Pictures {
 public:
  /// Reads the files. @throws FormatError for those that are no pictures
  explicit Pictures(const TextOptions& options);
  ~Pictures();
  bool empty() const { return pictures_.empty(); }
  /// Reads the tower, if there are pictures. @throws FormatError for a model that sees nothing, or a tower of another
  void open(const LoadedModel& model);
  /// A text with places for the pictures, if it has none.
  std::string marked(const std::string& text) const;
  bool is_marked(const std::string& text) const;
  /// @throws Error as models::VisionModel::prompt()
  models::PicturePrompt prompt(const data::Tokenizer& tokenizer, std::span<const data::TextPart> parts,
                               bool add_special) const;

 private:
  const TextOptions& options_;
  std::vector<Tensor> pictures_;
  std::vector<std::shared_ptr<models::SeenPicture>> seen_;  ///< the same, once the tower is there
  std::unique_ptr<models::VisionModel> vision_;             ///< null where there are no pictures
};

/// What load_model() takes: of a training run's folder, the best checkpoint.
std::filesystem::path model_path(const std::filesystem::path& path);
/// Files that the options name to be read.
std::vector<FilePath> models_of(const ModelOptions& options);
/// @throws DeviceError
Device device_of(const ModelOptions& options);
/// Of a tokenizer's own file, or of a model that has one. @throws FormatError
std::shared_ptr<const data::Tokenizer> open_tokenizer(const std::filesystem::path& path);
/// @param reuse_prefixes whether prompts may begin with blocks of earlier ones, for which each is read in two chunks
/// @throws FormatError, DeviceError
LoadedModel open_model(const ModelOptions& options, std::int64_t slots = 1, bool reuse_prefixes = true);
/// "120 of 160 guesses were right"; empty where nothing was guessed.
std::string guesses_line(const models::GenerationTimes& times);
/// @throws FormatError if the model came without a tokenizer
const data::Tokenizer& tokenizer_of(const LoadedModel& model, const std::string& path);

}  // namespace etna::cli
