#include <cmath>
#include <cstdlib>
#include <optional>

#include <iostream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <etna/data/text_file.h>
#include <etna/device/internal/atomic_file.h>
#include <etna/device/internal/output_file.h>
#include <etna/device/profile/report.h>
#include <etna/device/profile/trace_file.h>
#include <etna/device/profile/trace_picture.h>
#include <etna/etna.h>

#include "commands.h"
#include "corpus.h"
#include "generate.h"
#include "run_records.h"
#include "watch.h"

namespace wikitext {

using namespace etna;

namespace {

constexpr const char* kTrainCommand = "wikitext train";

/// How many steps are profiled for the picture in report.html.
constexpr std::int64_t kPicturedSteps = 4;

/// Settings that a resumed run may be given anew: they do not change what a step computes.
bool may_change(const std::string& name) {
  for (const char* free : {"epochs", "steps", "eval_every", "patience", "keep", "checkpoint_seconds"}) {
    if (name == free) return true;
  }
  return false;
}

/// Fills in what the command line leaves open.
void resolve(const TrainOptions& options, const Metadata& before, SettingList& list, Settings& settings) {
  if (options.resume) {
    const auto saved = before.find(kSettingsKey);
    if (saved == before.end()) throw FormatError(fmt::format("{} has checkpoints of another program", options.out));
    for (const std::string& name : list.differences(saved->second)) {
      if (!may_change(name))
        throw SettingError(fmt::format("{} is another one in {}; a resumed run keeps it", name, options.out));
    }
    list.read(saved->second, "the run");
  } else {
    list.read_environment();
    if (!options.config.empty()) list.read(data::read_text_file(options.config), options.config);
    list.read(preset_text(options.preset), "preset " + options.preset);
  }
  if (settings.epochs == 0 && settings.steps == 0) settings.epochs = 1;
  list.check();
}

void print_model(const TextModel& model, const Settings& s, const std::string& preset) {
  fmt::print("model: {}: {}, {} parameters; batches of {}, learning rate {}, {}\n", preset, model.describe(),
             training::with_commas(model.module().num_parameters()), s.batch, s.lr, s.precision);
}

/// What the training will need, by making small batches' steps with a model of the same settings.
training::MemoryForecast forecast(const Settings& settings, const Corpus& corpus, const RunOptions& options,
                                  Device device) {
  return training::forecast_memory(device, settings.batch, [&](std::int64_t batch) {
    Settings few = settings;
    few.batch = batch;
    const std::unique_ptr<TextModel> model = make_model(few, corpus.vocabulary());
    model->module().to(device);
    TrainingRun run(*model, corpus.train, few, device, options);
    for (std::int64_t left = run.steps_of_all_kinds(); left > 0; --left) run.advance();
  });
}

void print_forecast(const training::MemoryForecast& f) {
  fmt::print("memory: about {}\n", f.str());
  if (f.fits()) return;
  fmt::print(stderr, "warning: batches of {} need more memory than there is; {}\n", f.batch,
             f.largest_batch > 0 ? fmt::format("try --batch {}, and --accumulation for the rest", f.largest_batch)
                                 : "try a smaller model, or --precision bf16");
}

/// After the training: prints the profile's report, and writes the trace, where they were asked for.
void tell_profile(const std::optional<profile::Profile>& seen, const TrainOptions& options) {
  if (!options.profile) return;
  if (!seen) {
    fmt::print("profile: none, the training ended before the steps that warm up were over; try more --steps\n");
    return;
  }
  fmt::print("{}", profile::report(*seen));
  if (options.trace.empty()) return;
  profile::write_trace(*seen, options.trace);
  fmt::print("trace: {}{}\n", options.trace, options.trace.ends_with(".svg") ? "" : ", for ui.perfetto.dev");
}

void open_folder(const TrainOptions& options, std::optional<training::RunFolder>& folder) try {
  if (options.out.empty()) return;
  folder.emplace(options.out, options.resume  ? training::ExistingRun::resume
                              : options.force ? training::ExistingRun::overwrite
                                              : training::ExistingRun::refuse);
  if (options.resume) require_own_checkpoints(options.out);
} catch (const training::FolderTaken& error) {
  throw FormatError(fmt::format("{}: --resume goes on with a run, --force begins anew and removes it", error.what()));
}

}  // namespace

int run_train(const TrainOptions& options, Settings& settings, SettingList& list) {
  const Metadata before = options.resume ? newest_metadata(options.out) : Metadata{};
  resolve(options, before, list, settings);
  if (options.print_config) {
    fmt::print("{}", list.toml());
    return 0;
  }
  const std::string preset = options.resume && before.contains(kPresetKey) ? before.at(kPresetKey) : options.preset;
  const Device device = device_of(options.device, options.strict);
  fmt::print("{}\n", device_line(options.device, device));
  io::require_output({"--json", options.json, json_marks(kTrainCommand)}, options.force);
  io::require_output({"--trace", options.trace, profile::trace_marks(options.trace)}, options.force);
  std::optional<training::RunFolder> folder;
  open_folder(options, folder);
  Corpus corpus = find_corpus(options.data);

  const RunOptions run_options{.captured = !options.eager, .resident = options.resident};
  std::optional<training::MemoryForecast> memory;
  if (options.forecast) memory = forecast(settings, corpus, run_options, device);
  manual_seed(static_cast<std::uint64_t>(settings.seed));
  const std::unique_ptr<TextModel> model = make_model(settings, corpus.vocabulary());
  model->module().to(device);
  print_model(*model, settings, preset);
  if (memory) print_forecast(*memory);
  reset_transfers();
  TrainingRun run(*model, corpus.train, settings, device, run_options);
  const RunRecords records(options.out, before, preset, corpus.source, list, device);
  Metadata metadata = records.metadata();
  // So that other programs know what the weights are of (models/model_file.h).
  if (const auto config = model->decoder_config()) metadata["config"] = models::config_json(*config);
  if (folder && !options.resume) records.begin(*folder);
  Watch watch(run, *model, corpus, settings, device,
              {.folder = options.out,
               .metadata = metadata,
               .resume = options.resume,
               .evaluate = options.evaluate,
               .reported = options.resume ? reported_step(options.out) : -1});
  const std::int64_t first_step = run.step();
  if (watch.nothing_left()) {
    fmt::print("nothing is left to do: {} ended at step {}; --epochs N or --steps N trains it longer\n",
               training::printable(options.out), first_step);
    return 0;
  }
  profile::StepProfiler profiler(
      {.steps = options.profile ? options.profile_steps
                : folder        ? kPicturedSteps
                                : 0,
       .what = {.timing = options.profile_exact ? profile::Timing::dispatches : profile::Timing::automatic}});

  try {
    while (watch.go_on()) {
      profile::Scope step = profiler.step();
      const double lr = run.lr();
      const Tensor loss = run.advance();
      watch.after_step(lr, loss);
    }
    watch.finish();
  } catch (...) {
    records.end(training::Outcome::failed, watch.summary(preset, first_step));
    throw;
  }
  Summary summary = watch.summary(preset, first_step);
  summary.transfers = transfers();
  summary.memory = memory_stats(device);
  nlohmann::json result = to_json(summary, *model, device, kTrainCommand);
  const std::optional<profile::Profile> seen = profiler.take();
  tell_profile(seen, options);
  if (seen) summary.profile_svg = profile::trace_picture(*seen);
  print_summary(summary);
  if (watch.interrupted()) {
    records.end(training::Outcome::interrupted, summary);
    if (folder) fmt::print("stopped; go on with: {} train --resume --out {}\n", options.program, options.out);
    return watch.exit_code();
  }
  std::string passage;
  if (options.evaluate) {
    watch.take_best();
    summary.valid_perplexity = std::exp(watch.valid_loss());
    Split test(*model, corpus.test,
               {.title = "test",
                .streams = streams_of_splits(*model, settings),
                .seq = settings.seq,
                .device = device,
                .precision = dtype_named(settings.precision)});
    const double valid_loss = watch.valid_loss(), test_loss = test.loss();
    summary.test_perplexity = std::exp(test_loss);
    result["valid_perplexity"] = *summary.valid_perplexity;
    result["test_perplexity"] = *summary.test_perplexity;
    if (!corpus.of_words()) {
      result["valid_word_perplexity"] = *(summary.valid_word_perplexity = word_perplexity(valid_loss, corpus.valid));
      result["test_word_perplexity"] = *(summary.test_word_perplexity = word_perplexity(test_loss, corpus.test));
    }
    passage = generate(*model, *corpus.tokenizer, "", {.seed = static_cast<std::uint64_t>(settings.seed)}, device);
    fmt::print("perplexity: {} (an untrained model: {})\n\n{}\n\n", perplexity_text(corpus, valid_loss, test_loss),
               training::with_commas(model->words()), printable_lines(passage));
  }
  records.end(training::Outcome::finished, summary);
  if (folder) records.finish(*folder, options.program, summary, result, passage);
  if (!options.json.empty()) io::write_file(options.json, result.dump(2) + "\n");
  if (is_embedded(options.data)) {
    fmt::print(
        "This was the embedded corpus. For WikiText-2: tools/get-wikitext2 DIR, then --data DIR (or ETNA_DATA=DIR).\n");
  }
  return 0;
}

int run_generate(const GenerateOptions& options) {
  Device device = device_of(options.device, options.strict);
  SavedModel saved = load_model(options.run, device);
  const std::vector<std::string> unknown = unknown_words(options.prompt, *saved.tokenizer);
  if (!unknown.empty()) {
    std::string list;
    for (const std::string& word : unknown) list += (list.empty() ? "" : ", ") + training::shortened(word, 40);
    fmt::print(stderr, "the model does not know these words and reads <unk> for them: {}\n", list);
  }
  fmt::print("{}\n",
             printable_lines(generate(*saved.model, *saved.tokenizer, options.prompt, options.sampling, device)));
  return 0;
}

int run_chat(const GenerateOptions& options) {
  const Device device = device_of(options.device, options.strict);
  const SavedModel saved = load_model(options.run, device);
  fmt::print("{}, {}; the model goes on with each line; an empty line or Ctrl-D ends\n", saved.settings.model,
             saved.model->describe());
  std::string text;
  for (std::string line; std::getline(std::cin, line) && !line.empty();) {
    text += (text.empty() ? "" : " ") + line;
    const std::string all = generate(*saved.model, *saved.tokenizer, text, options.sampling, device);
    fmt::print("{}\n", printable_lines(all.size() > text.size() ? all.substr(text.size()) : all));
    std::fflush(stdout);
    text = all;
  }
  return 0;
}

}  // namespace wikitext
