#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include <etna/device/output_file.h>
#include <etna/device/profile/profile.h>
#include <etna/device/profile/profiler.h>
#include <etna/etna.h>
#include <etna/train/report.h>
#include <etna/train/runs.h>

#include "wikitext.h"

namespace wikitext {

using namespace etna;

namespace {

constexpr const char* kCompareCommand = "wikitext compare";

/// @param amdahl where the time of a captured run's steps went
training::RunSummary train_on(Device device, bool captured, const CompareOptions& options, Settings settings,
                              const training::TextCorpus& corpus, std::string& amdahl) {
  settings.epochs = options.epoch ? 1 : 0;  // the learning rate's schedule spans it, op by op too
  settings.steps = options.epoch && captured ? 0 : options.steps;
  manual_seed(static_cast<std::uint64_t>(settings.seed));
  const TextModel model = make_model(settings, corpus.vocabulary(), device);
  training::begin_comparable_run(device);
  // Of captured steps, after the second, which is captured. Profiled steps take under 1 % longer: no median moves.
  const std::int64_t after = 3, profiled = std::clamp<std::int64_t>((options.steps - after) / 2, 0, 20);
  profile::StepProfiler profiler({.skip = after, .steps = captured ? profiled : 0});
  training::TextRun run(model.on_streams, corpus.train, settings, device, settings.run(captured, options.resident));
  training::TrainingLoopOptions loop_options = run.loop_options();
  loop_options.command = kCompareCommand;
  loop_options.preset = options.preset;
  loop_options.epoch_loss = nullptr;
  loop_options.progress = loop_options.interruptible = false;
  loop_options.reads = training::comparable_reads(options.steps, loop_options.steps);
  fmt::print("training {} steps on {} in {}, {} ...\n", loop_options.steps, device.str(), settings.precision,
             captured ? "captured" : "op by op");
  std::fflush(stdout);
  training::TrainingLoop loop(run.step(), std::move(loop_options));
  run.train(loop, &profiler);
  training::RunSummary summary = run.summary(loop);
  summary.mode = captured ? "captured" : "eager";
  if (const auto seen = profiler.take()) amdahl = training::amdahl_line(profile::summarize(*seen));
  return summary;
}

}  // namespace

int run_compare(const CompareOptions& options, Settings& settings, training::SettingList& list) {
  read_preset(list, options.preset);
  settings.check();
  io::require_output({"--json", options.json, json_marks(kCompareCommand)}, options.force);
  io::require_output({"--picture", options.picture, {training::kPlotMark}}, options.force);
  std::vector<Device> devices;
  for (const std::string& name : options.devices) {
    devices.push_back(select_device(name));
    fmt::print("{}\n", device_line(name, devices.back()));
  }
  const training::TextCorpus corpus = options.open();
  const std::vector<std::string> precisions =
      options.precisions.empty() ? std::vector{settings.precision} : options.precisions;
  std::vector<training::RunPair> pairs;
  for (const Device device : devices) {
    for (const std::string& precision : precisions) {
      settings.precision = precision;
      training::RunPair pair;
      pair.eager = train_on(device, false, options, settings, corpus, pair.amdahl);
      pair.captured = train_on(device, true, options, settings, corpus, pair.amdahl);
      pairs.push_back(std::move(pair));
    }
  }
  const std::string title =
      fmt::format("{}: {} steps, seed {}", options.preset, pairs[0].captured.steps, settings.seed);
  return training::report_comparison(pairs, title, options.picture, options.json) ? 0 : 1;
}

}  // namespace wikitext
