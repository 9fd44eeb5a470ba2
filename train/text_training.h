#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <etna/data/batches.h>
#include <etna/data/token_file.h>
#include <etna/data/tokenizers/tokenizer.h>
#include <etna/device/owned.h>
#include <etna/nn/lstm_language_model.h>
#include <etna/nn/module.h>
#include <etna/tensor/io/checkpoint.h>
#include <etna/train/evaluator.h>
#include <etna/train/runs.h>
#include <etna/train/settings.h>
#include <etna/train/training_loop.h>

namespace etna::profile {
class StepProfiler;
}

/// Training language models on a text that is read in contiguous streams of tokens (data/batches.h).
namespace etna::training {

/// The token ids of a split: in memory, or in a mapped file.
struct TextSplit {
  std::vector<std::int32_t> ids = {};
  std::optional<data::TokenFile> file = {};
  std::int64_t words = 0;  ///< of the text, its line ends among them

  std::int64_t size() const { return file ? file->size() : static_cast<std::int64_t>(ids.size()); }
  /// Of a file: the batches keep it open. Of ids in memory: this object outlives them.
  /// @throws FormatError for an empty split, or one too short
  data::StreamBatches streams(std::int64_t batch, std::int64_t seq) const;
};

/// A text to train on.
struct TextCorpus {
  std::shared_ptr<const data::Tokenizer> tokenizer;
  TextSplit train, valid, test;
  std::string source;     ///< its origin, for people
  bool embedded = false;  ///< the one that is part of the library

  std::int64_t vocabulary() const { return static_cast<std::int64_t>(tokenizer->size()); }
  /// Whether a token is a word, so that perplexity per token is the one per word.
  bool of_words() const { return tokenizer->name() == "word"; }
  /// "demo: 120,283 training, 8,062 validation, 8,134 test tokens, 1,125 words"
  std::string str() const;
  /// Fills in the perplexities of mean losses per token; those per word, a line end counting as one, where tokens are
  /// no words: exp(total loss / words).
  void set_perplexities(double valid_loss, double test_loss, RunSummary& summary) const;
};

/// @param text a UTF-8 text file, or a folder of them @param data otherwise a folder of WikiText or of
/// `etna data prepare`, which is mapped; both empty: that of $ETNA_DATA, else a small one that is part of the library
/// @throws FormatError
TextCorpus open_text_corpus(const std::string& text, std::string data);

/// A model on some streams of a text: its functions go on where their last batch ended.
struct StreamModel {
  nn::Module* module = nullptr;
  Evaluator::Metric loss;                   ///< of i32 [B, T]; in eval mode the mean cross-entropy
  std::function<void()> forget = {};        ///< before the first batch of each epoch; empty: it remembers nothing
  std::vector<CheckpointItem> memory = {};  ///< what it remembers: tensors [layers, B, ...]
  std::function<Tensor(const Tensor& x)> hidden = {};     ///< what head() takes: of i32 [B, T], [B, T, dim]
  std::function<Tensor(const Tensor& hidden)> head = {};  ///< of [..., dim], logits [..., words]
  std::int64_t dim = 0;                                   ///< of hidden()
};
/// Puts a model on so many streams. The model outlives what it returns.
using OnStreams = std::function<StreamModel(std::int64_t batch, Device device)>;

struct TextRunOptions {
  std::int64_t seq = 64;        ///< tokens of a sequence
  std::int64_t seq_spread = 0;  ///< sequences are longer or shorter by up to this, a multiple of 8
  bool captured = true;         ///< record a step once and replay it; otherwise run op by op
  /// Every rank of the group runs it, each with its part of the batch's sequences.
  bool distributed = false;
  int zero_stage = 0;     ///< what the ranks divide among them (DataParallelOptions)
  bool resident = false;  ///< upload the text once and slice batches on the device; otherwise upload each batch
};

/// A model on its way through a text, epoch after epoch, by AdamW. Each token weighs alike.
///     training::TextRun run(on_streams, corpus.train, recipe, device);
///     training::TrainingLoop loop(run.step(), run.loop_options());
///     run.train(loop);
class TextRun {
 public:
  /// @param model on `device` @param split outlives the run: its ids are read
  /// @throws FormatError for a text too short for one step, SettingError for options that contradict each other
  TextRun(const OnStreams& model, const TextSplit& split, const Recipe& recipe, Device device,
          TextRunOptions options = {});
  ~TextRun();
  TextRun(const TextRun&) = delete;
  TextRun& operator=(const TextRun&) = delete;

  /// Makes a step. @return its loss, 0-d on the device; the next step may overwrite it
  Tensor advance();
  /// Goes on at the batch that follows step(), after a checkpoint was loaded.
  void resume();

  /// Steps made.
  const std::int64_t& step() const;
  /// How many steps from the first have met sequences of each length twice, so that each is captured.
  std::int64_t steps_of_all_kinds() const;

  /// Length, validation, checkpoints and their items, by the recipe.
  TrainingLoopOptions loop_options();
  /// Makes the loop's steps, and finishes it. @throws NonFiniteLoss
  void train(TrainingLoop& loop, profile::StepProfiler* profiler = nullptr);
  /// loop.summary() with what the run knows, and the memory in use.
  RunSummary summary(const TrainingLoop& loop) const;

 private:
  struct State;
  Owned<State> state_;
};

struct TextEvaluatorOptions {
  std::int64_t seq = 64, streams = 1;                ///< how the split is read; a short one has fewer streams
  EvaluatorOptions evaluator = {};                   ///< device, precision, title
  std::optional<nn::NeuralCacheOptions> cache = {};  ///< of the last words, with which it is one stream
};

/// The mean loss of a split. May be asked again while the model trains.
class TextEvaluator {
 public:
  /// @param split outlives the evaluator @throws FormatError for a split too short for one sequence
  TextEvaluator(const OnStreams& model, const TextSplit& split, const TextEvaluatorOptions& options);
  double loss();

 private:
  Tensor measure(const Tensor& x, const Tensor& y);

  data::StreamBatches streams_;
  StreamModel model_;
  Owned<nn::NeuralCache> cache_;
  Evaluator evaluator_;
};

/// Measures both splits. @throws FormatError as TextEvaluator, NonFiniteLoss
RunSummary measure_perplexities(const OnStreams& model, const TextCorpus& corpus, TextEvaluatorOptions options);

/// Fine-tuning of a language model on a file of rows (docs/finetuning.md). The numbers of Recipe have other defaults.
struct FineTuneOptions : Recipe {
  FineTuneOptions();

  std::string model, data;         ///< what models::load_model() reads; a file of rows
  std::string valid_data;          ///< rows to validate on; empty: a share of `data`
  double valid = 0.05;             ///< that share
  std::string method = "lora";     ///< or "dora", adapters with magnitudes, or "full", all weights
  std::string objective = "auto";  ///< "answers", "dpo", "orpo" or "teacher"; auto: as the rows and `teacher` ask for
  std::int64_t rank = 16;          ///< of adapters
  double alpha = 32, dropout = 0;
  std::string targets = "all";      ///< of adapters, with commas between (models::AdapterOptions)
  std::string adapter;              ///< a file of adapters to go on with; empty: fresh ones
  std::string chat_format;          ///< empty: the model's own template; "none": prompts are continued as they are
  std::int64_t seq = 1024;          ///< tokens of a row at most
  std::string packing = "on";       ///< several texts share a row, and do not see each other; "off": one text a row
  std::string order = "shuffled";   ///< or "file"
  double beta = 0.1;                ///< of DPO, and the weight of the odds of ORPO
  std::string teacher;              ///< a larger model with the same vocabulary, whose probabilities are learned, too
  double teacher_share = 0.5;       ///< of the divergence in the loss
  double temperature = 2;           ///< of the probabilities that are compared
  std::string merge = "off";        ///< also write a whole model: its matrices as they are ("on") or in a block format
  std::int64_t sample_tokens = 64;  ///< of the texts before and after; 0: none

  FilePath folder = {};  ///< of the run
  Device device = {};
  ExistingRun existing = ExistingRun::refuse;
  bool captured = true;  ///< record a step once and replay it
  bool progress = true;  ///< false: nothing is printed
  bool forecast = true;  ///< measure beforehand what memory the training will take
  bool profile = false;  ///< print where the time of 20 steps went, those after the first five

  /// Adds all but the last seven, by these names. The options outlive the list.
  void add_to(SettingList& list);
  /// Those that a resumed run may be given anew.
  static std::vector<std::string> may_change();
  /// @throws SettingError for numbers out of range, and settings that contradict each other
  void check() const;
};

/// What fine_tune() returns.
struct FineTuneResult {
  std::int64_t steps = 0, trained = 0;       ///< steps in all; numbers that are trained
  std::optional<double> loss, valid_loss;    ///< the last that was read; the best
  FilePath adapter_folder, adapter, merged;  ///< PEFT's folder, the GGUF file, and the whole model; empty: not written
  std::string prompt, before, after;         ///< a row's prompt, and what the model wrote behind it
  bool interrupted = false;
  int exit_code = 0;  ///< 130 after Ctrl-C: ExistingRun::resume goes on
};

/// Trains adapters of a model, or all of its weights, on the answers of a file of rows, and writes them into the run's
/// folder. A run that was stopped and resumed ends with the bits of one that was not.
///     training::FineTuneOptions options;
///     options.model = "model.gguf";
///     options.data = "rows.jsonl";
///     options.folder = "runs/tuned";
///     options.device = device;
///     options.epochs = 3;
///     const training::FineTuneResult result = training::fine_tune(options);
/// A resumed run has its settings from its checkpoint; of `options`, all but the folder, the device and the existing
/// run may be left out.
/// @param settings made by options.add_to(), where it is known which of them were given; null: all are
/// @throws FormatError for files that cannot be used, SettingError, NonFiniteLoss, OutOfMemory
FineTuneResult fine_tune(FineTuneOptions& options, SettingList* settings = nullptr);

/// Draws a token, or takes the most probable at a temperature of 0. @param top_k number of candidates; 0: all
/// @param state of the random numbers, the seed at first
std::int32_t draw_token(const std::vector<float>& logits, double temperature, std::int64_t top_k, std::uint64_t& state);

}  // namespace etna::training
