#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include <etna/autograd/autograd.h>
#include <etna/device/error.h>
#include <etna/device/profile/profile.h>
#include <etna/device/profile/profiler.h>
#include <etna/models/generator.h>
#include <etna/tensor/io/internal/xxh3.h>
#include <etna/train/internal/answer_run.h>
#include <etna/train/internal/fine_tune_files.h>
#include <etna/train/text_training.h>

namespace etna::training {
namespace {

constexpr const char *kProgram = "etna finetune", *kRows = "rows";  // the latter: of a checkpoint's metadata

template <typename... T>
void print_line(const FineTuneOptions& options, fmt::format_string<T...> format, T&&... values) {
  if (options.progress) fmt::print("{}\n", fmt::format(format, std::forward<T>(values)...));
}

/// Rows to train on and to validate on.
struct TuningRows {
  AnswerRows train, valid;
  std::string hash;  ///< of their tokens
};

/// Takes a share of the rows out, spread over the file.
AnswerRows take_share(AnswerRows& rows, double share) {
  AnswerRows taken, left;
  taken.kind = left.kind = rows.kind;
  const std::size_t size = rows.kind == RowKind::preference ? 2 : 1, count = rows.texts.size() / size;
  const auto wanted = static_cast<std::size_t>(std::lround(share * static_cast<double>(count)));
  std::size_t at = 0;
  for (std::size_t i = 0; i < count; ++i) {
    // The middle of the next of `wanted` equal parts.
    const bool takes = at < wanted && at + 1 < count && i == (2 * at + 1) * count / (2 * wanted);
    at += takes ? 1 : 0;
    AnswerRows& to = takes ? taken : left;
    for (std::size_t k = 0; k < size; ++k) to.texts.push_back(std::move(rows.texts[i * size + k]));
    to.prompts.push_back(std::move(rows.prompts[i]));
  }
  rows = std::move(left);
  return taken;
}

AnswerRows rows_of(const FineTuneOptions& options, const std::string& file, const models::Model& model,
                   io::Xxh3& hash) {
  RowLosses losses;
  const RowOptions reading{options.chat_format, options.seq + 1, model.decoder->config.vocabulary};
  AnswerRows rows = read_answer_rows(file, model.tokenizer.get(), reading, losses);
  for (const AnswerText& text : rows.texts) {
    hash.add(static_cast<std::uint64_t>(text.ids.size()));
    hash.add(text.ids.data(), text.ids.size() * sizeof(std::int32_t));
    hash.add(text.learned.data(), text.learned.size());
  }
  const std::string sentences = losses.str(reading.most);
  if (options.progress && !sentences.empty()) fmt::print("{}: {}", printable(file), sentences);
  return rows;
}

TuningRows read_rows(const FineTuneOptions& options, const models::Model& model) {
  io::Xxh3 hash;
  TuningRows rows{rows_of(options, options.data, model, hash), {}, {}};
  if (!options.valid_data.empty()) {
    rows.valid = rows_of(options, options.valid_data, model, hash);
    if (rows.valid.kind != rows.train.kind) {
      throw FormatError(fmt::format("{}: its rows have {}, those of {} have {}", printable(options.valid_data),
                                    name(rows.valid.kind), printable(options.data), name(rows.train.kind)));
    }
  } else if (options.valid > 0) {
    rows.valid = take_share(rows.train, options.valid);
  }
  if (rows.valid.texts.empty() && options.patience > 0) {
    throw SettingError(
        fmt::format("patience needs rows to validate on, and a share of {} of {} rows is none; set valid higher",
                    options.valid, rows.train.prompts.size()));
  }
  rows.hash = fmt::format("{:016x}", hash.value());
  return rows;
}

AnswerObjective objective_of(const FineTuneOptions& options, RowKind kind) {
  const bool pairs = kind == RowKind::preference,
             wants_pairs = options.objective == "dpo" || options.objective == "orpo";
  if (options.objective != "auto" && pairs != wants_pairs) {
    throw FormatError(fmt::format("{}: the objective {} learns from rows of {}, and these have {}",
                                  printable(options.data), options.objective,
                                  wants_pairs ? name(RowKind::preference) : "answers", name(kind)));
  }
  if (pairs && !options.teacher.empty())
    throw SettingError("a teacher goes with rows of answers, and not of preferences");
  if (pairs) return options.objective == "orpo" ? AnswerObjective::odds : AnswerObjective::preferences;
  return options.teacher.empty() ? AnswerObjective::answers : AnswerObjective::teacher;
}

/// The learning rate that suits, where none is given.
double usual_rate(const FineTuneOptions& options, AnswerObjective objective) {
  const double rate = options.method == "full" ? 2e-5 : 2e-4;
  return objective == AnswerObjective::preferences || objective == AnswerObjective::odds ? rate / 10 : rate;
}

std::optional<models::Model> open_teacher(const FineTuneOptions& options, AnswerObjective objective,
                                          const models::Model& model) {
  if (objective != AnswerObjective::teacher) return std::nullopt;
  models::Model teacher = open_causal_model(options.teacher, {.device = options.device});
  const std::int64_t wanted = model.decoder->config.vocabulary, got = teacher.decoder->config.vocabulary;
  if (got != wanted) {
    throw FormatError(fmt::format("{}: a teacher needs the model's vocabulary; it has {} tokens, {} has {}",
                                  printable(options.teacher), got, printable(options.model), wanted));
  }
  teacher.decoder->requires_grad_(false);
  teacher.decoder->eval();
  return teacher;
}

/// The most likely answer to a prompt.
std::string written(const models::Model& model, const std::vector<std::int32_t>& prompt,
                    const FineTuneOptions& options) {
  const NoGrad no_grad;
  model.decoder->eval();
  models::GenerationOptions generation;
  generation.max_tokens = options.sample_tokens;
  generation.sampling.temperature = 0;
  generation.stop_tokens = model.tokenizer->end_tokens();
  std::vector<std::int32_t> answer;
  {
    const std::int64_t tokens = static_cast<std::int64_t>(prompt.size()) + options.sample_tokens + 1;
    models::Generator generator(*model.decoder, {.device = options.device, .cache = {.tokens = tokens}});
    generator.generate(prompt, generation, [&](std::int32_t token) {
      answer.push_back(token);
      return true;
    });
  }
  model.decoder->train();
  return model.tokenizer->decode(answer);
}

/// The first prompt that leaves room for an answer; empty where there is none.
std::vector<std::int32_t> sample_prompt(const TuningRows& rows, const FineTuneOptions& options, std::int64_t context) {
  if (options.sample_tokens == 0) return {};
  for (const AnswerRows* all : {&rows.valid, &rows.train})
    for (const std::vector<std::int32_t>& prompt : all->prompts)
      if (!prompt.empty() && std::ssize(prompt) + options.sample_tokens < context) return prompt;
  return {};
}

/// Of parameters, and of matrices in block formats.
std::int64_t numbers_in(models::Decoder& decoder) {
  std::int64_t count = decoder.num_parameters();
  for (nn::Module* part : decoder.modules()) {
    const auto* layer = dynamic_cast<const models::Projection*>(part);
    if (layer != nullptr && layer->frozen()) count += layer->in * layer->out;
  }
  return count;
}

std::string sample_text(const FineTuneResult& result) {
  if (result.prompt.empty()) return "";
  return fmt::format("prompt: {}\n\nbefore: {}\n\nafter: {}", result.prompt, result.before, result.after);
}

void describe(const FineTuneOptions& options, const models::Model& model, const AnswerRun& run,
              const TuningRows& rows) {
  const AnswerBatches& batches = run.batches();
  print_line(options, "model: {}: {}, {} of {} numbers are trained ({})", printable(options.model),
             model.decoder->config.architecture, with_commas(run.weights().count()),
             with_commas(numbers_in(*model.decoder)), options.method);
  print_line(options, "data: {}: {} texts with {} tokens of answers, {} to validate on; {} rows of {} tokens a step",
             printable(options.data), with_commas(std::ssize(rows.train.texts)), with_commas(batches.answers()),
             with_commas(std::ssize(rows.valid.texts)), batches.tokens_per_step() / batches.seq(), batches.seq());
}

/// Settings of a run that goes on, and its rows, which must be the same.
Metadata resume_settings(FineTuneOptions& options, SettingList& list) {
  if (options.existing != ExistingRun::resume) return {};
  const Metadata before = newest_metadata(options.folder);
  const std::string folder = printable(options.folder.string());
  if (!before.contains(kRows)) throw FormatError(fmt::format("{} has checkpoints of another program", folder));
  list.resume(RunRecords::settings_of(before, fmt::format("{} has checkpoints of another program", folder)),
              FineTuneOptions::may_change(), folder);
  return before;
}

/// One call of fine_tune().
class FineTuning {
 public:
  FineTuning(FineTuneOptions& options, SettingList& list)
      : options_(options), before_(resume_settings(options, list)), list_(list) {
    options_.check();
    check_merge(options_.merge);
    if (options_.folder.empty()) throw FormatError("fine_tune: the run needs a folder, and none is given");
    folder_.emplace(options_.folder, options_.existing);
    model_ = open_tuned_model(options_);
    check_tuned_model(options_, model_);
    options_.seq = std::min(options_.seq, model_.decoder->config.context);
    rows_ = read_rows(options_, model_);
    if (!before_.empty() && before_.at(kRows) != rows_.hash) {
      throw FormatError(fmt::format("{}: the rows are others than those that the run in {} began with",
                                    printable(options_.data), printable(options_.folder.string())));
    }
    objective_ = objective_of(options_, rows_.train.kind);
    if (options_.lr == 0) options_.lr = usual_rate(options_, objective_);
    teacher_ = open_teacher(options_, objective_, model_);
  }

  FineTuneResult train() {
    const models::Decoder* teacher = teacher_ ? teacher_->decoder.get() : nullptr;
    AnswerRun run(*model_.decoder, rows_.train, options_, objective_, teacher);
    describe(options_, model_, run, rows_);
    if (options_.forecast) forecast(run.batches());
    std::optional<AnswerValidation> valid;
    if (!rows_.valid.texts.empty()) valid.emplace(*model_.decoder, rows_.valid, options_, objective_);
    const std::vector<std::int32_t> prompt =
        model_.tokenizer ? sample_prompt(rows_, options_, model_.decoder->config.context) : std::vector<std::int32_t>();
    FineTuneResult result;
    result.trained = run.weights().count();
    if (!prompt.empty()) {
      result.prompt = model_.tokenizer->decode(prompt);
      result.before = written(model_, prompt, options_);
    }
    const RunRecords records({.program = kProgram,
                              .preset = options_.method,
                              .corpus = options_.data,
                              .device = options_.device,
                              .folder = options_.folder,
                              .resumed = before_},
                             list_);
    if (before_.empty()) records.begin(*folder_);
    TrainingLoop loop(run.step(), loop_options(run, records, valid));
    if (loop.nothing_left()) {
      print_line(options_, "nothing is left to do: {} ended at step {}; more epochs or steps train it longer",
                 printable(options_.folder.string()), run.step());
      result.steps = run.step();
      return result;
    }
    return finish(run, loop, records, prompt, std::move(result));
  }

 private:
  void forecast(const AnswerBatches& batches) const {
    const MemoryForecast memory = forecast_tuning(options_, objective_, batches);
    if (options_.progress) memory.print();
  }

  TrainingLoopOptions loop_options(AnswerRun& run, const RunRecords& records, std::optional<AnswerValidation>& valid) {
    TrainingLoopOptions loop = run.loop_options();
    if (valid) loop.validate = [&valid] { return valid->loss(); };
    loop.folder = options_.folder;
    loop.resume = !before_.empty();
    loop.reported = loop.resume ? reported_step(options_.folder) : -1;
    loop.perplexity = objective_ == AnswerObjective::answers;
    loop.metadata = records.metadata();
    loop.metadata[kRows] = rows_.hash;
    if (options_.method == "full") {  // so that a checkpoint is a model
      const std::string config = checkpoint_config(options_, model_.decoder->config);
      if (!config.empty()) loop.metadata["config"] = config;
      if (model_.tokenizer) loop.items.emplace_back("vocabulary", vocabulary_);
    }
    return loop;
  }

  static void make_steps(AnswerRun& run, TrainingLoop& loop, profile::StepProfiler& profiler) {
    while (loop.go_on()) {
      const profile::Scope scope = profiler.step();
      const double lr = run.lr();
      const Tensor loss = run.advance();
      loop.after_step(lr, loss);
    }
    loop.finish();
  }

  RunSummary summary_of(const AnswerRun& run, const TrainingLoop& loop) const {
    RunSummary summary = loop.summary();
    summary.precision = options_.precision;
    summary.mode = options_.captured ? "captured" : "eager";
    summary.parameters = numbers_in(*model_.decoder);
    if (const auto report = run.report()) summary.program = report->str();
    if (objective_ == AnswerObjective::answers && std::isfinite(loop.valid_loss()))
      summary.valid_perplexity = std::exp(loop.valid_loss());
    summary.measure_memory();
    return summary;
  }

  FineTuneResult finish(AnswerRun& run, TrainingLoop& loop, const RunRecords& records,
                        const std::vector<std::int32_t>& prompt, FineTuneResult result) {
    profile::StepProfiler profiler({.steps = options_.profile ? 20 : 0});
    try {
      make_steps(run, loop, profiler);
    } catch (...) {
      records.end(Outcome::failed, summary_of(run, loop));
      throw;
    }
    const RunSummary summary = summary_of(run, loop);
    result.steps = run.step();
    if (!summary.losses.empty()) result.loss = summary.losses.back().loss;
    if (std::isfinite(loop.valid_loss())) result.valid_loss = loop.valid_loss();
    result.interrupted = loop.interrupted();
    result.exit_code = loop.exit_code();
    if (options_.profile) report_profile(profiler.take(), "");
    if (options_.progress) fmt::print("{}", summary.str());
    if (result.interrupted) {
      records.end(Outcome::interrupted, summary);
      print_line(options_, "stopped; go on with: {} --resume --out {}", kProgram, printable(options_.folder.string()));
      return result;
    }
    loop.take_best(*model_.decoder);
    if (!prompt.empty()) result.after = written(model_, prompt, options_);
    write_tuned_model(options_, model_, result);
    records.end(Outcome::finished, summary);
    report(records, summary, result);
    return result;
  }

  void report(const RunRecords& records, const RunSummary& summary, const FineTuneResult& result) const {
    if (options_.progress && result.valid_loss) fmt::print("best validation loss: {:.4f}\n", *result.valid_loss);
    if (options_.progress && !result.prompt.empty()) fmt::print("\n{}\n\n", printable_lines(sample_text(result)));
    records.finish(*folder_, summary, sample_text(result), "", options_.progress);
    if (options_.progress && model_.tokenizer) fmt::print("{}", commands_to_run(options_, result));
  }

  FineTuneOptions& options_;
  const Metadata before_;
  SettingList& list_;
  std::optional<RunFolder> folder_;
  models::Model model_;
  std::optional<models::Model> teacher_;
  TuningRows rows_;
  AnswerObjective objective_ = AnswerObjective::answers;
  data::TokenizerState vocabulary_{model_.tokenizer};
};

}  // namespace

FineTuneResult fine_tune(FineTuneOptions& options, SettingList* settings) {
  const EnableGrad grads;  // whatever the caller has
  if (settings != nullptr) return FineTuning(options, *settings).train();
  SettingList own;
  options.add_to(own);
  return FineTuning(options, own).train();
}

}  // namespace etna::training
