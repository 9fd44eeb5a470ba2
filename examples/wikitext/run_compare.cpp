#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include <etna/device/internal/atomic_file.h>
#include <etna/device/internal/output_file.h>
#include <etna/etna.h>

#include "amdahl.h"
#include "commands.h"
#include "compare_table.h"
#include "corpus.h"
#include "loss_meter.h"
#include "training_run.h"

namespace wikitext {

using namespace etna;

namespace {

constexpr const char* kCompareCommand = "wikitext compare";

/// Which steps of a run are profiled: some after the step is recorded. Profiled steps take under 1 % longer, which does
/// not move a median.
profile::StepProfiler::Options profiled(std::int64_t steps) {
  constexpr std::int64_t warm_up = 3;
  return {.skip = warm_up, .steps = std::clamp<std::int64_t>((steps - warm_up) / 2, 0, 20)};
}

/// Which losses are read: the same ones in every run, as far as it goes.
bool looks_at(std::int64_t step, std::int64_t steps, std::int64_t total) {
  if (step == 1 || step == total) return true;
  const std::int64_t span = step <= steps ? steps : total;
  return step % std::max<std::int64_t>(1, span / 20) == 0;
}

Summary train_on(bool captured, const CompareOptions& options, Settings settings, const Corpus& corpus,
                 Compared& compared) {
  const Device device = compared.device;
  settings.precision = compared.precision;
  settings.epochs = options.epoch ? 1 : 0;  // the learning rate's schedule spans it, op by op too
  settings.steps = options.epoch && captured ? 0 : options.steps;
  manual_seed(static_cast<std::uint64_t>(settings.seed));
  const std::unique_ptr<TextModel> model = make_model(settings, corpus.vocabulary());
  model->module().to(device);
  reset_peak_memory(kCPU);
  if (device.is_vulkan()) reset_peak_memory(device);
  profile::StepProfiler profiler(captured ? profiled(options.steps) : profile::StepProfiler::Options{.steps = 0});
  reset_transfers();
  TrainingRun training(*model, corpus.train, settings, device, {.captured = captured, .resident = options.resident});
  fmt::print("training {} steps on {} in {}, {} ...\n", training.total(), device.str(), settings.precision,
             captured ? "captured" : "op by op");
  std::fflush(stdout);
  LossMeter meter(training.tokens_per_step(), 0, 0);
  std::vector<double> epoch_seconds;
  double epoch_begin = 0;
  while (training.step() < training.total()) {
    profile::Scope scope = profiler.step();
    const Tensor loss = training.advance();
    const std::int64_t step = training.step();
    if (looks_at(step, options.steps, training.total())) meter.look(step, training.lr(), loss);
    if (!training.at_end_of_epoch()) continue;
    meter.take();
    synchronize(device);
    epoch_seconds.push_back(meter.seconds() - std::exchange(epoch_begin, meter.seconds()));
  }
  meter.take();
  Summary summary = summary_of(training, meter, 0);
  summary.preset = options.preset;
  summary.precision = settings.precision;
  summary.mode = captured ? "captured" : "eager";
  summary.epoch_seconds = std::move(epoch_seconds);
  summary.transfers = transfers();
  summary.memory = memory_stats(device);
  compared.report.push_back(to_json(summary, *model, device, kCompareCommand));
  if (auto seen = profiler.take()) compared.amdahl = amdahl_line(profile::summarize(*seen));
  return summary;
}

}  // namespace

int run_compare(const CompareOptions& options, Settings& settings, SettingList& list) {
  constexpr double kAllowed = 0.02;
  list.read(preset_text(options.preset), "preset " + options.preset);
  list.check();
  io::require_output({"--json", options.json, json_marks(kCompareCommand)}, options.force);
  io::require_output({"--picture", options.picture, {training::kPlotMark}}, options.force);
  std::vector<Device> devices;
  for (const std::string& name : options.devices) {
    devices.push_back(select_device(name));
    fmt::print("{}\n", device_line(name, devices.back()));
  }
  const Corpus corpus = find_corpus(options.data);
  const std::vector<std::string> precisions =
      options.precisions.empty() ? std::vector{settings.precision} : options.precisions;
  std::vector<Compared> runs;
  for (const Device device : devices) {
    for (const std::string& precision : precisions) {
      Compared run{.device = device, .precision = precision, .eager = {}, .captured = {}};
      run.eager = train_on(false, options, settings, corpus, run);
      run.captured = train_on(true, options, settings, corpus, run);
      runs.push_back(std::move(run));
    }
  }
  const std::string title = fmt::format("{}: {} steps, seed {}", options.preset, runs[0].captured.steps, settings.seed);
  fmt::print("\n{}\n{}", title, table(runs));
  for (const Compared& run : runs) {
    if (!run.amdahl.empty()) fmt::print("{}: {}\n", run.name(), run.amdahl);
  }
  fmt::print("\n{}\n{}", losses(runs), conclusion(runs));
  if (!options.picture.empty()) {
    io::write_file(options.picture, picture(runs, title));
    fmt::print("picture: {}\n", training::printable(options.picture));
  }

  double worst = 0;
  nlohmann::json all = nlohmann::json::array();
  for (Compared& run : runs) {
    for (auto [mode, history] : {std::pair(0, &run.eager), std::pair(1, &run.captured)}) {
      const double differs = largest_difference(runs[0].captured, *history);
      worst = std::max(worst, differs);
      nlohmann::json& entry = run.report[static_cast<std::size_t>(mode)];
      entry["loss_difference"] = differs;
      entry["amdahl"] = mode == 1 ? run.amdahl : "";
      all.push_back(entry);
    }
  }
  if (!options.json.empty()) io::write_file(options.json, all.dump(2) + "\n");
  if (worst <= kAllowed) return 0;
  fmt::print(stderr, "error: the losses part by more than {:.0f} %, so the devices do not compute the same\n",
             kAllowed * 100);
  return 1;
}

}  // namespace wikitext
