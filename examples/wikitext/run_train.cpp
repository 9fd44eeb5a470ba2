#include <cmath>
#include <cstdlib>
#include <optional>

#include <fmt/format.h>

#include <etna/device/profile/report.h>
#include <etna/device/profile/trace_file.h>
#include <etna/etna.h>

#include "commands.h"
#include "corpus.h"
#include "presets.h"
#include "report.h"
#include "run_directory.h"
#include "train.h"

namespace wikitext {

using namespace etna;

namespace {

void print_progress(std::int64_t step, std::int64_t steps, double loss, double seconds) {
  // Logs about every twentieth of the run, and the first steps, so that a beginner sees progress.
  if (step > 20 && step != steps && step % std::max<std::int64_t>(10, steps / 200 * 10) != 0) return;
  double left = seconds / static_cast<double>(step) * static_cast<double>(steps - step);
  fmt::print("step {:>6}/{}  loss {:7.4f}  perplexity {:9.1f}  {:6.1f} s, {:.0f} s left\n", step, steps, loss,
             std::exp(loss), seconds, left);
  std::fflush(stdout);
}

/// After the training: prints the report, and writes the trace if one was asked for.
void tell_profile(profile::StepProfiler& profiler, const TrainOptions& options) {
  if (!options.profile) return;
  std::optional<profile::Profile> seen = profiler.take();
  if (!seen) {
    fmt::print("profile: none, the training ended before the steps that warm up were over; try more --steps\n");
    return;
  }
  fmt::print("{}", profile::report(*seen));
  if (options.trace.empty()) return;
  profile::write_trace(*seen, options.trace);
  fmt::print("trace: {}{}\n", options.trace, options.trace.ends_with(".svg") ? "" : ", for ui.perfetto.dev");
}

}  // namespace

int run_train(const TrainOptions& options) {
  Device device = select_device(options.device);
  fmt::print("{}\n", device_line(options.device, device));
  if (!options.out.empty()) require_writable(options.out);
  if (!options.json.empty()) require_writable(std::filesystem::absolute(options.json).parent_path());
  if (!options.trace.empty()) profile::require_trace_writable(options.trace);
  Preset preset = find_preset(options.preset);
  data::Corpus corpus = find_corpus(options.data);
  bool embedded = options.data.text.empty() && options.data.data.empty() && std::getenv("ETNA_DATA") == nullptr;

  manual_seed(options.seed);
  nn::LanguageModel model(model_config(preset, static_cast<std::int64_t>(corpus.vocab.size())));
  model.to(device);
  const auto& c = model.config;
  profile::StepProfiler profiler(
      {.steps = options.profile ? options.profile_steps : 0,
       .what = {.timing = options.profile_exact ? profile::Timing::dispatches : profile::Timing::automatic}});
  Recipe recipe{.batch = options.batch > 0 ? options.batch : preset.batch,
                .epochs = options.epochs,
                .steps = options.steps,
                .lr = options.lr > 0 ? options.lr : preset.lr,
                .captured = !options.eager,
                .precision = dtype_named(options.precision),
                .resident = options.resident,
                .profiler = &profiler};
  if (recipe.epochs == 0 && recipe.steps == 0) {
    recipe.steps = preset.steps;
    recipe.epochs = preset.steps > 0 ? 0 : 1;
  }
  fmt::print(
      "model: {}: {} layers, {} heads, width {}, {} tokens of context, {} parameters; batches of {}, learning rate "
      "{}, {}\n",
      preset.name, c.layers, c.heads, c.dim, c.seq, with_commas(model.num_parameters()), recipe.batch, recipe.lr,
      name(recipe.precision));

  reset_transfers();
  History history = train(model, corpus.train, recipe, device, print_progress);
  Transfers crossed = transfers();
  auto result = report(history, preset.name, model, device, crossed);
  tell_profile(profiler, options);
  fmt::print("trained {} steps in {:.1f} s: {:.0f} tokens/s, {:.2f} ms a step (median)\n", history.steps,
             history.seconds, history.tokens_per_second(), history.ms_per_step_median);
  for (std::size_t e = 0; e < history.epoch_loss.size(); ++e)
    fmt::print("epoch {}: mean training loss {:.4f}, {:.1f} s\n", e + 1, history.epoch_loss[e],
               history.epoch_seconds[e]);
  if (history.program) fmt::print("{}", history.program->str());

  if (!options.out.empty()) save_checkpoint(options.out, model, corpus.vocab, preset.name, recipe.batch);
  if (options.evaluate) {
    double valid = perplexity(model, corpus.valid, recipe.batch, device, recipe.precision),
           test = perplexity(model, corpus.test, recipe.batch, device, recipe.precision);
    result["valid_perplexity"] = valid;
    result["test_perplexity"] = test;
    fmt::print("perplexity: validation {:.2f}, test {:.2f} (an untrained model: {})\n", valid, test,
               with_commas(c.vocab));
    fmt::print("\n{}\n\n", generate(model, corpus.vocab, "", {.seed = options.seed}, device));
  } else {
    result["valid_perplexity"] = nullptr;
    result["test_perplexity"] = nullptr;
  }
  if (!options.out.empty()) {
    std::filesystem::path folder = options.out;
    save_metrics(folder / "metrics.csv", history);
    save_text(folder / "summary.json", result.dump(2) + "\n");
    fmt::print("saved to {}: go on with `wikitext generate --run {}` or `wikitext eval --run {}`\n", options.out,
               options.out, options.out);
  }
  if (!options.json.empty()) save_text(options.json, result.dump(2) + "\n");
  if (embedded) {
    fmt::print(
        "This was the embedded corpus. For WikiText-2: tools/get-wikitext2 DIR, then --data DIR (or ETNA_DATA=DIR).\n");
  }
  return 0;
}

int run_evaluate(const EvaluateOptions& options) {
  Device device = select_device(options.device);
  fmt::print("{}\n", device_line(options.device, device));
  Checkpoint checkpoint = load_checkpoint(options.run, device);
  data::Corpus corpus = find_corpus(options.data);
  if (corpus.vocab != checkpoint.vocabulary) {
    throw FormatError(
        fmt::format("the corpus has other words ({}) than {} was trained on ({}); name the same --data or --text",
                    corpus.vocab.size(), options.run, checkpoint.vocabulary.size()));
  }
  const DType precision = dtype_named(options.precision);
  double valid = perplexity(*checkpoint.model, corpus.valid, checkpoint.batch, device, precision);
  double test = perplexity(*checkpoint.model, corpus.test, checkpoint.batch, device, precision);
  fmt::print("perplexity: validation {:.2f}, test {:.2f}\n", valid, test);
  if (!options.json.empty()) {
    nlohmann::json result = {{"device", device.str()},      {"device_name", device_name(device)},
                             {"preset", checkpoint.preset}, {"parameters", checkpoint.model->num_parameters()},
                             {"valid_perplexity", valid},   {"test_perplexity", test}};
    save_text(options.json, result.dump(2) + "\n");
  }
  return 0;
}

int run_generate(const GenerateOptions& options) {
  Device device = select_device(options.device);
  Checkpoint checkpoint = load_checkpoint(options.run, device);
  fmt::print("{}\n", generate(*checkpoint.model, checkpoint.vocabulary, options.prompt, options.sampling, device));
  return 0;
}

}  // namespace wikitext
