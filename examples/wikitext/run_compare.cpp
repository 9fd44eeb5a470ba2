#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include <etna/device/atomic_file.h>
#include <etna/etna.h>

#include "amdahl.h"
#include "commands.h"
#include "corpus.h"
#include "loss_meter.h"
#include "report.h"
#include "training_run.h"

namespace wikitext {

using namespace etna;

namespace {

/// The two runs of one device, one per mode.
struct Run {
  Device device;
  Summary eager, captured;
  nlohmann::json report;
  std::string amdahl;
};

/// Which steps of a run are profiled: some after the step is recorded. Profiled steps take under 1 % longer, which does
/// not move a median.
profile::StepProfiler::Options profiled(std::int64_t steps) {
  constexpr std::int64_t warm_up = 3;
  return {.skip = warm_up, .steps = std::clamp<std::int64_t>((steps - warm_up) / 2, 0, 20)};
}

Summary train_on(Device device, bool captured, const CompareOptions& options, const Settings& settings,
                 const Corpus& corpus, Run& run) {
  manual_seed(static_cast<std::uint64_t>(settings.seed));
  const std::unique_ptr<TextModel> model = make_model(settings, corpus.vocabulary());
  model->module().to(device);
  reset_peak_memory(kCPU);
  if (device.is_vulkan()) reset_peak_memory(device);
  profile::StepProfiler profiler(captured ? profiled(options.steps) : profile::StepProfiler::Options{.steps = 0});
  fmt::print("training {} steps on {}, {} ...\n", options.steps, device.str(), captured ? "captured" : "op by op");
  std::fflush(stdout);
  reset_transfers();
  TrainingRun training(*model, corpus.train, settings, device, {.captured = captured, .resident = options.resident});
  LossMeter meter(training.tokens_per_step(), 0, 0);
  const std::int64_t look_every = std::max<std::int64_t>(1, options.steps / 20);
  std::vector<double> epoch_seconds;
  double epoch_begin = 0;
  while (training.step() < training.total()) {
    profile::Scope scope = profiler.step();
    const Tensor loss = training.advance();
    const std::int64_t step = training.step();
    if (step == 1 || step % look_every == 0 || step == training.total()) meter.look(step, training.lr(), loss);
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
  run.report.push_back(to_json(summary, *model, device));
  if (auto seen = profiler.take()) run.amdahl = amdahl_line(profile::summarize(*seen));
  return summary;
}

/// Largest |a - b| / |a| over the losses that both runs read.
double largest_difference(const Summary& a, const Summary& b) {
  double worst = 0;
  for (std::size_t i = 0; i < std::min(a.looks.size(), b.looks.size()); ++i) {
    worst = std::max(worst, std::abs(a.looks[i].loss - b.looks[i].loss) / std::abs(a.looks[i].loss));
  }
  return worst;
}

void print_table(const std::vector<Run>& runs, const CompareOptions& options, const Settings& settings) {
  fmt::print("\n{}: {} steps, seed {}, {}\n", options.preset, options.steps, settings.seed, settings.precision);
  fmt::print("{:<28} {:>11} {:>11} {:>12} {:>13} {:>9} {:>11} {:>12}\n", "device", "eager ms", "captured ms",
             "tokens/s", "s an epoch", "speed-up", "final loss", "loss differs");
  const double tokens = static_cast<double>(runs[0].captured.tokens_per_step);
  for (const Run& run : runs) {
    const Summary& h = run.captured;
    const double differs =
        std::max(largest_difference(runs[0].captured, h), largest_difference(runs[0].captured, run.eager));
    fmt::print("{:<28.28} {:>11.2f} {:>11.2f} {:>12.0f} {:>12.2f}{} {:>8.2f}x {:>11.4f} {:>11.3f}%\n",
               fmt::format("{} {}", run.device.str(), run.device.is_cpu() ? "" : device_name(run.device)),
               run.eager.ms_per_step_median, h.ms_per_step_median, tokens / h.ms_per_step_median * 1e3,
               h.seconds_an_epoch(), h.epoch_seconds.empty() ? "*" : " ",
               runs[0].captured.ms_per_step_median / h.ms_per_step_median, h.looks.back().loss, differs * 100);
  }
  fmt::print("tokens/s, epochs and speed-up are of captured steps\n");
  if (std::any_of(runs.begin(), runs.end(), [](const Run& r) { return r.captured.epoch_seconds.empty(); })) {
    fmt::print("* extrapolated from {} steps to the {} of an epoch\n", options.steps, runs[0].captured.steps_per_epoch);
  }
  for (const Run& run : runs) {
    if (!run.amdahl.empty()) fmt::print("{}: {}\n", run.device.str(), run.amdahl);
  }
}

}  // namespace

int run_compare(const CompareOptions& options, Settings& settings, SettingList& list) {
  constexpr double kAllowed = 0.02;
  list.read(preset_text(options.preset), "preset " + options.preset);
  settings.epochs = 0;
  settings.steps = options.steps;
  list.check();
  if (!options.json.empty()) io::require_writable(options.json);
  std::vector<Device> devices;
  for (const std::string& name : options.devices) {
    devices.push_back(select_device(name));
    fmt::print("{}\n", device_line(name, devices.back()));
  }
  const Corpus corpus = find_corpus(options.data);
  std::vector<Run> runs;
  for (Device device : devices) {
    Run run{device, {}, {}, nlohmann::json::array(), {}};
    run.eager = train_on(device, false, options, settings, corpus, run);
    run.captured = train_on(device, true, options, settings, corpus, run);
    runs.push_back(std::move(run));
  }
  print_table(runs, options, settings);

  double worst = 0;
  nlohmann::json all = nlohmann::json::array();
  for (Run& run : runs) {
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
