#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <etna/device/device.h>
#include <etna/models/decoder_config.h>
#include <etna/train/receipt.h>
#include <etna/train/runs.h>
#include <etna/train/text_training.h>

/// Trains language models on a text, measures them, lets them write.
namespace wikitext {

namespace training = etna::training;
using CacheOptions = std::optional<etna::nn::NeuralCacheOptions>;

/// Every number and choice of a training run.
struct Settings : training::Recipe {
  std::string model = "transformer";
  std::int64_t layers = 2, heads = 4, dim = 128, ffn = 512, hidden = 512, seq = 64, seq_spread = 0, vocab = 0;
  double dropout = 0, dropout_embedding = 0, dropout_input = 0, dropout_hidden = 0, weight_drop = 0;
  double activation = 0, slowness = 0;

  /// Adds all of them. They outlive the list.
  void add_to(training::SettingList& list);
  /// @throws SettingError for sizes that make no sense together
  void check() const;
  training::TextRunOptions run(bool captured, bool resident) const;
  /// @param title of the bar
  training::TextEvaluatorOptions evaluation(etna::Device device, const char* title = "",
                                            const CacheOptions& cache = {}) const;
};

/// Reads one of presets/, or a file that ends in .toml. @throws SettingError
void read_preset(training::SettingList& list, const std::string& name);

/// A language model as this program uses it: a transformer, which sees each batch by itself, or an LSTM.
struct TextModel {
  std::unique_ptr<etna::nn::Module> module;
  training::OnStreams on_streams;
  std::int64_t words;                                       ///< entries of its table
  std::string description;                                  ///< for people
  std::optional<etna::models::DecoderConfig> decoder = {};  ///< for models::Generator; nothing for an LSTM
};

/// @throws SettingError for sizes that make no decoder
void check_decoder(const Settings& settings);
/// A new model on the device. @param words of the corpus
TextModel make_model(const Settings& settings, std::int64_t words, etna::Device device);

struct SavedModel {
  TextModel model;
  std::shared_ptr<const etna::data::Tokenizer> tokenizer;
  Settings settings;
  std::string preset;
};

/// The best model of a run's folder, or else its latest; or that of a file.
/// @throws FormatError for files that are missing, damaged or inconsistent
SavedModel load_model(const etna::FilePath& folder_or_file, etna::Device device);

/// @throws FormatError for a run of a GPT-2 whose weights have names of an older version
void refuse_older_names(const etna::FilePath& run);

/// The source of the text: a WikiText folder, any text file, or the embedded corpus.
struct DataOptions {
  std::string data, text;  ///< --data, else $ETNA_DATA; --text

  /// Loads the corpus, and prints what it is.
  training::TextCorpus open() const;
};

struct DeviceOptions {
  std::string device, receipt;
  bool strict = false;

  etna::Device select() const { return strict ? etna::select_device_strictly(device) : etna::select_device(device); }
};

struct TrainOptions : DataOptions, DeviceOptions {
  std::string program = "wikitext";  ///< as the user called it
  std::vector<std::string> command;
  std::string preset = "tiny", config, out, json, trace;
  bool resume = false, force = false, print_config = false, evaluate = true, eager = false, resident = false;
  bool distributed = false;  ///< this process is a rank of a group
  int zero = 0;              ///< stage of ZeRO
  std::string meet;          ///< where the ranks meet; empty: their launcher says it
  double late_seconds = 0;   ///< 0: the library's
  bool forecast = true, profile = false, profile_exact = false;
  std::int64_t profile_steps = 20;
};

struct EvaluateOptions : DataOptions, DeviceOptions {
  std::vector<std::string> command;
  std::string run, json, precision = "f32";
  bool with_cache = false, force = false;
  etna::nn::NeuralCacheOptions cache;
};

struct GenerateOptions : DeviceOptions {
  std::string run, prompt;
  std::int64_t words = 60;   ///< how many tokens
  double temperature = 0.8;  ///< 0: always the most probable token
  std::int64_t top_k = 40;   ///< number of candidate tokens; 0: all
  std::uint64_t seed = 1;
};

struct CompareOptions : DataOptions {
  std::vector<std::string> devices = {"cpu", "vulkan:0"};
  std::vector<std::string> precisions;  ///< empty: the preset's
  std::string preset = "tiny", json, picture;
  std::int64_t steps = 20;
  bool epoch = false, resident = false, force = false;
};

/// The subcommands. Each returns the process's exit code and throws Etna's errors.
/// @param settings those of the command line; others are filled in
int run_train(const TrainOptions& options, Settings& settings, training::SettingList& list);
int run_evaluate(const EvaluateOptions& options);
int run_generate(const GenerateOptions& options);
int run_chat(const GenerateOptions& options);
int run_compare(const CompareOptions& options, Settings& settings, training::SettingList& list);

/// Continues the prompt (an empty one starts a line, or a text of byte pairs) token by token, until the end of a text.
std::string generate(const TextModel& model, const etna::data::Tokenizer& tokenizer, const GenerateOptions& options,
                     etna::Device device);
/// Begins to count for --receipt; null for an empty name. @throws OutputExists, FormatError
std::unique_ptr<training::Receipt> begin_receipt(const std::string& file, const std::vector<std::string>& command,
                                                 bool force, const std::vector<etna::FilePath>& read = {});
/// The files that the text is read from; an embedded corpus has none.
void add_text_files(training::Receipt& receipt, const DataOptions& options);
/// What marks a JSON file of a command, "wikitext eval", which another output may then replace.
inline std::vector<std::string> json_marks(const std::string& command) { return {"\"command\": \"" + command + "\""}; }

}  // namespace wikitext
