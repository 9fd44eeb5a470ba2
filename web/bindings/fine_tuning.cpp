// Language models that are trained further on a text, step by step, as `etna finetune` trains them.
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include <etna/train/internal/answer_run.h>
#include <etna/train/training_loop.h>

#include "models.h"

namespace etna::web {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

/// All weights of a model on their way through a text. The model keeps its own until the end.
struct Tuning {
  int model = 0;  ///< id
  training::FineTuneOptions options;
  training::AnswerRows rows;
  std::unique_ptr<models::Decoder> decoder;
  std::optional<training::AnswerRun> run;
};

Kept<Tuning>& tunings() {
  static Kept<Tuning> all("finetune");
  return all;
}

std::int64_t count_in(const Json& args, const char* name, std::int64_t least, std::int64_t most) {
  const Json& value = args.at(name);
  if (value.is_number_integer() && value >= least && value <= most) return value.get<std::int64_t>();
  throw Error(fmt::format("finetune: {} is {}; wanted an integer from {} to {}", name, value.dump(), least, most));
}

training::FineTuneOptions options_of(const Json& args, const LoadedModel& model) {
  constexpr std::int64_t kMost = 1 << 24;
  training::FineTuneOptions options;
  options.method = "full";
  options.model = model.path;
  options.device = model.device;
  options.epochs = 0;
  options.steps = count_in(args, "steps", 1, kMost);
  options.batch = count_in(args, "batch", 1, kMost);
  options.seq = count_in(args, "seq", 2, model.model.decoder->config.context);
  options.seed = count_in(args, "seed", 0, std::int64_t{1} << 53);
  options.warmup = std::min<std::int64_t>(10, options.steps / 10);
  options.lr = number_of(args.at("lr"));
  if (!(options.lr > 0 && options.lr <= 1))
    throw Error(fmt::format("finetune: lr is {}; wanted a number above 0, and at most 1", args.at("lr").dump()));
  return options;
}

/// A folder that is there while its object is.
struct Folder {
  fs::path path;
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
};

/// Pieces of the text of seq + 1 tokens, of which each but the first is learned.
training::AnswerRows rows_of(const std::string& text, const LoadedModel& model, std::int64_t seq, int id) {
  const data::Tokenizer* tokenizer = model.model.tokenizer.get();
  if (tokenizer == nullptr) throw Error("finetune: the model has no tokenizer; give load_model() its file");
  if (text.find_first_not_of(" \t\r\n") == std::string::npos) throw FormatError("finetune: the text is empty");
  if (text.find('\0') != std::string::npos) throw FormatError("finetune: this is no text: it has zero bytes");
  const std::size_t tokens = tokenizer->encode_prompt(text).size();
  if (std::cmp_less_equal(tokens, seq))
    throw FormatError(
        fmt::format("finetune: the text has {} tokens; wanted more than seq, which is {}: give a longer "
                    "text or a smaller seq",
                    tokens, seq));
  const Folder folder{fs::path("/finetune") / std::to_string(id)};
  fs::create_directories(folder.path);
  std::ofstream(folder.path / "text.txt", std::ios::binary) << text;
  training::RowLosses losses;
  return training::read_answer_rows(folder.path, tokenizer, {.most = seq + 1}, losses);
}

Json begin(const Json& args) {
  const LoadedModel& model = model_with(args.at("model"));
  auto tuning = std::make_unique<Tuning>();
  tuning->model = args.at("model");
  tuning->options = options_of(args, model);
  tuning->rows = rows_of(args.at("text"), model, tuning->options.seq, args.at("id"));
  if (model.tuned) {
    tuning->decoder = nn::clone_of(*model.model.decoder);
    tuning->decoder->requires_grad_(true);
    tuning->decoder->train();
  } else {
    tuning->decoder = training::open_tuned_model(tuning->options).decoder;
  }
  tuning->run.emplace(*tuning->decoder, tuning->rows, tuning->options, training::AnswerObjective::answers, nullptr);
  const training::AnswerBatches& batches = tuning->run->batches();
  const Json result = {{"tokens", batches.answers()},
                       {"steps_per_epoch", batches.steps_per_epoch()},
                       {"parameters", tuning->run->weights().count()}};
  tunings().put(args.at("id"), std::move(tuning));
  return result;
}

/// Makes steps for some milliseconds, at least one. @return the last one's loss, which waits for the device
Json make_steps(const Json& args) {
  Tuning& tuning = tunings().at(args);
  const auto end = Clock::now() + std::chrono::duration<double, std::milli>(number_of(args.at("milliseconds")));
  training::AnswerRun& run = *tuning.run;
  Tensor loss;
  while (run.step() < tuning.options.steps && (!loss.defined() || Clock::now() < end)) loss = run.advance();
  const double value = loss.defined() ? loss.item<double>() : 0;
  if (!std::isfinite(value))
    throw training::NonFiniteLoss(
        fmt::format("finetune: the loss at step {} is {}; use a smaller lr", run.step(), value));
  const auto report = run.report();
  return {{"step", run.step()}, {"loss", value}, {"captured", report.has_value()}};
}

/// @param args "keep": the model gets the weights, if it is still there
Json end(const Json& args) {
  Tuning* tuning = tunings().find(args);
  if (tuning == nullptr) return Json::object();
  tuning->run.reset();
  LoadedModel* model = find_model(tuning->model);
  if (args.at("keep") && model != nullptr) {
    tuning->decoder->zero_grad();
    tuning->decoder->requires_grad_(false);
    tuning->decoder->eval();
    set_decoder(*model, std::move(tuning->decoder));
  }
  tunings().free(args.at("id"));
  return Json::object();
}

/// The model as it is now. @return the bytes of a GGUF file
Json save_gguf(const Json& args) {
  const LoadedModel& model = model_with(args.at("id"));
  const Folder folder{fs::path("/saved") / std::to_string(args.at("id").get<int>())};
  fs::create_directories(folder.path);
  const fs::path file = folder.path / "model.gguf";
  models::save_gguf_model(file, *model.model.decoder, model.model.tokenizer.get());
  std::ifstream in(file, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(in), {}};
  return with_bytes(Json::object(), bytes.data(), bytes.size());
}

}  // namespace

void add_fine_tuning_methods(Methods& methods) {
  methods["finetune"] = begin;
  methods["finetune_steps"] = make_steps;
  methods["end_finetune"] = end;
  methods["save_gguf"] = save_gguf;
}

}  // namespace etna::web
