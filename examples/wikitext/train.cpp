#include <algorithm>
#include <cstdio>
#include <exception>
#include <filesystem>

#include <fmt/format.h>

#include <etna/data/text_file.h>
#include <etna/data/tokenizers/tokenizer.h>
#include <etna/device/output_file.h>
#include <etna/device/profile/profile.h>
#include <etna/device/profile/profiler.h>
#include <etna/dist/dist.h>
#include <etna/etna.h>
#include <etna/models/model_file.h>

#include "wikitext.h"

namespace wikitext {

using namespace etna;

namespace {

constexpr const char* kTrainCommand = "wikitext train";

/// Fills in what the command line leaves open. @param before metadata of the checkpoint that a resumed run goes on from
void resolve(const TrainOptions& options, const Metadata& before, training::SettingList& list, Settings& settings) {
  if (options.resume) {
    list.resume(
        training::RunRecords::settings_of(before, fmt::format("{} has checkpoints of another program", options.out)),
        Settings::may_change(), options.out);
  } else {
    list.read_environment("ETNA_WIKITEXT_");
    if (!options.config.empty()) list.read(data::read_text_file(options.config), options.config);
    read_preset(list, options.preset);
  }
  if (settings.epochs == 0 && settings.steps == 0) settings.epochs = 1;
  settings.check();
}

/// What the training will need, by making small batches' steps with a model of the same settings.
training::MemoryForecast forecast(const Settings& settings, const training::TextCorpus& corpus,
                                  const training::TextRunOptions& options, Device device) {
  return training::forecast_memory(device, settings.batch, [&](std::int64_t batch) {
    Settings few = settings;
    few.batch = batch;
    const TextModel model = make_model(few, corpus.vocabulary(), device);
    training::TextRun run(model.on_streams, corpus.train, few, device, options);
    for (std::int64_t left = run.steps_of_all_kinds(); left > 0; --left) run.advance();
  });
}

void print_next(const std::string& program, const std::string& folder) {
  fmt::print(
      "next:\n"
      "  {1} generate --run {0} --prompt \"The river\"   # let it write\n"
      "  {1} eval --run {0}                             # measure it in a process of its own\n"
      "  {1} train --resume --out {0} --epochs N        # train it longer\n",
      training::printable(folder), training::printable(program));
  // A demo builds no more than this program.
  const std::filesystem::path etna = std::filesystem::path(program).parent_path() / "etna";
  if (std::filesystem::exists(etna))
    fmt::print("  {} runs                                            # compare all runs\n",
               training::printable(etna.string()));
}

}  // namespace

namespace {

/// Joins the group, if there is one to join, and leaves it at the end. The first rank alone prints and writes.
class RankOfRun {
 public:
  explicit RankOfRun(const TrainOptions& options) {
    if (options.distributed) distributed::init({.meet = options.meet, .late_seconds = options.late_seconds});
    if (!first() && std::freopen("/dev/null", "w", stdout) == nullptr)
      throw Error("standard output of this rank cannot be closed");
  }
  ~RankOfRun() {
    if (std::uncaught_exceptions() == 0) distributed::finish();
  }
  RankOfRun(const RankOfRun&) = delete;
  RankOfRun& operator=(const RankOfRun&) = delete;

  static bool first() { return distributed::rank() == 0; }
  static TrainOptions own(TrainOptions options) {
    if (!first()) options.json = options.trace = options.receipt = "";
    return options;
  }
};

}  // namespace

int run_train(const TrainOptions& given, Settings& settings, training::SettingList& list) {
  const RankOfRun rank(given);
  const TrainOptions options = RankOfRun::own(given);
  const bool first = RankOfRun::first();
  const Metadata before = options.resume ? training::newest_metadata(options.out) : Metadata{};
  resolve(options, before, list, settings);
  if (options.print_config) {
    fmt::print("{}", list.toml());
    return 0;
  }
  const std::string preset = training::RunRecords::preset_of(before, options.preset);
  const Device device = options.distributed ? distributed::select_local_device(options.device) : options.select();
  fmt::print("{}\n", device_line(options.device, device));
  if (distributed::is_distributed()) {
    distributed::require_same("setting", fmt::format("{}\nzero = {}", list.toml(), options.zero));
    fmt::print("distributed: {} processes, {}\n", distributed::size(), distributed::engine());
  }
  io::require_output({"--json", options.json, json_marks(kTrainCommand)}, options.force);
  io::require_output({"--trace", options.trace, profile::trace_marks(options.trace)}, options.force);
  const auto receipt = begin_receipt(options.receipt, options.command, options.force);
  if (receipt) {
    receipt->device(options.device, device);
    receipt->seed("model", static_cast<std::uint64_t>(settings.seed));
    add_text_files(*receipt, options);
  }
  std::unique_ptr<training::RunFolder> folder;
  if (first) folder = training::open_run(options.out, options.resume, options.force);
  training::TextCorpus corpus = options.open();
  training::TextRunOptions run_options = settings.run(!options.eager, options.resident);
  std::optional<training::MemoryForecast> memory;
  if (options.forecast && options.zero == 0) {  // it trains undivided models
    Settings own = settings;
    own.batch = std::max<std::int64_t>(1, settings.batch / distributed::size());
    memory = forecast(own, corpus, run_options, device);
  }
  run_options.distributed = distributed::is_distributed();
  run_options.zero_stage = options.zero;
  manual_seed(static_cast<std::uint64_t>(settings.seed));
  const TextModel model = make_model(settings, corpus.vocabulary(), device);
  fmt::print("model: {}: {}, {} parameters; batches of {}, learning rate {}, {}\n", preset, model.description,
             training::with_commas(model.module->num_parameters()), settings.batch, settings.lr, settings.precision);
  if (memory) memory->print();
  reset_transfers();
  training::TextRun run(model.on_streams, corpus.train, settings, device, run_options);
  const training::RunRecords records({.program = kTrainCommand,
                                      .preset = preset,
                                      .corpus = corpus.source,
                                      .device = device,
                                      .folder = options.out,
                                      .resumed = before},
                                     list);
  if (folder && !options.resume) records.begin(*folder);

  std::optional<training::TextEvaluator> valid;
  const bool divided = options.zero == 3 && distributed::is_distributed();  // each rank has a part of the weights
  if (options.evaluate) {
    training::TextEvaluatorOptions evaluation = settings.evaluation(device, "validation");
    evaluation.evaluator.captured = !divided;
    valid.emplace(model.on_streams, corpus.valid, evaluation);
  }
  training::TrainingLoopOptions loop_options = run.loop_options();
  if (valid) loop_options.validate = [&] { return valid->loss(); };
  if (first || options.resume) loop_options.folder = options.out;
  loop_options.resume = options.resume;
  loop_options.reported = options.resume ? training::reported_step(options.out) : -1;
  // The tokenizer first: another corpus is then said as such, and not as tables of other sizes.
  data::TokenizerState tokenizer{corpus.tokenizer};
  loop_options.items.insert(loop_options.items.begin(), {"vocabulary", tokenizer});
  loop_options.metadata = records.metadata();
  loop_options.command = kTrainCommand;
  loop_options.preset = preset;
  // So that other programs know what the weights are of (models/model_file.h).
  if (model.decoder) loop_options.metadata["config"] = models::config_json(*model.decoder);
  training::TrainingLoop loop = [&] {
    try {
      return training::TrainingLoop(run.step(), std::move(loop_options));
    } catch (const FormatError&) {
      if (options.resume) refuse_older_names(options.out);
      throw;
    }
  }();
  if (loop.nothing_left()) {
    fmt::print("nothing is left to do: {} ended at step {}; --epochs N or --steps N trains it longer\n",
               training::printable(options.out), run.step());
    return 0;
  }
  run.resume();
  const std::int64_t pictured = folder ? 4 : 0;  // in report.html
  profile::StepProfiler profiler(
      {.steps = options.profile ? options.profile_steps : pictured,
       .what = {.timing = options.profile_exact ? profile::Timing::dispatches : profile::Timing::automatic}});
  try {
    run.train(loop, &profiler);
  } catch (...) {
    if (first) records.end(training::Outcome::failed, run.summary(loop));
    throw;
  }
  if (!first) return loop.exit_code();
  training::RunSummary summary = run.summary(loop);
  const std::optional<profile::Profile> seen = profiler.take();
  if (options.profile) training::report_profile(seen, options.trace);
  fmt::print("{}", summary.str());
  const auto finish_receipt = [&] {
    if (!receipt) return;
    receipt->number("steps", static_cast<double>(summary.steps));
    receipt->number("tokens_per_second", summary.tokens_per_second());
    if (!summary.losses.empty()) receipt->number("final_loss", summary.losses.back().loss);
    if (summary.valid_perplexity) receipt->number("valid_perplexity", *summary.valid_perplexity);
    if (summary.test_perplexity) receipt->number("test_perplexity", *summary.test_perplexity);
    if (folder && !training::find_checkpoints(folder->checkpoints()).latest.empty())
      receipt->file("checkpoint", training::best_checkpoint(folder->path()));
    receipt->write(options.receipt);
    fmt::print("receipt: {0} (etna receipt check {0})\n", training::printable(options.receipt));
  };
  if (loop.interrupted()) {
    finish_receipt();
    records.end(training::Outcome::interrupted, summary);
    if (folder) fmt::print("stopped; go on with: {} train --resume --out {}\n", options.program, options.out);
    return loop.exit_code();
  }
  std::string passage;
  if (options.evaluate && divided && !folder) {
    fmt::print("no evaluation: the ranks have a part of the weights each, and without --out there is no checkpoint\n");
  } else if (options.evaluate) {
    std::optional<SavedModel> whole;
    if (divided)
      whole = load_model(options.out, device);
    else
      loop.take_best(*model.module);
    const TextModel& best = whole ? whole->model : model;
    training::TextEvaluator test(best.on_streams, corpus.test, settings.evaluation(device, "test"));
    corpus.set_perplexities(loop.valid_loss(), test.loss(), summary);
    GenerateOptions writing;
    writing.seed = static_cast<std::uint64_t>(settings.seed);
    passage = generate(best, *corpus.tokenizer, writing, device);
    fmt::print("perplexity: {} (an untrained model: {})\n\n{}\n\n", summary.perplexities(),
               training::with_commas(best.words), training::printable_lines(passage));
  }
  records.end(training::Outcome::finished, summary);
  if (folder) {
    records.finish(*folder, summary, passage, seen ? profile::trace_picture(*seen) : "");
    print_next(options.program, folder->path().string());
  }
  if (!options.json.empty()) io::write_file(options.json, training::json_text(summary) + "\n");
  finish_receipt();
  if (corpus.embedded)
    fmt::print(
        "This was the embedded corpus. For WikiText-2: tools/get-wikitext2 DIR, then --data DIR (or ETNA_DATA=DIR).\n");
  return 0;
}

}  // namespace wikitext
