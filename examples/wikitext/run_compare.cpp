#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include <etna/etna.h>

#include "amdahl.h"
#include "commands.h"
#include "corpus.h"
#include "presets.h"
#include "report.h"
#include "run_directory.h"
#include "train.h"

namespace wikitext {

using namespace etna;

namespace {

/// The two runs of one device, one per mode.
struct Run {
  Device device;
  History eager, captured;
  nlohmann::json report;
  std::string amdahl;
};

/// Which steps of a run are profiled: some after the step is recorded. Profiled steps take under 1 % longer, which does
/// not move a median.
profile::StepProfiler::Options profiled(std::int64_t steps) {
  constexpr std::int64_t warm_up = 3;
  return {.skip = warm_up, .steps = std::clamp<std::int64_t>((steps - warm_up) / 2, 0, 20)};
}

History train_on(Device device, bool captured, const CompareOptions& options, const Preset& preset,
                 const data::Corpus& corpus, Run& run) {
  manual_seed(options.seed);
  nn::LanguageModel model(model_config(preset, static_cast<std::int64_t>(corpus.vocab.size())));
  model.to(device);
  reset_peak_memory(kCPU);
  if (device.is_vulkan()) reset_peak_memory(device);
  reset_transfers();
  profile::StepProfiler profiler(captured ? profiled(options.steps) : profile::StepProfiler::Options{.steps = 0});
  Recipe recipe{.batch = preset.batch,
                .steps = options.steps,
                .lr = preset.lr,
                .log_every = std::max<std::int64_t>(1, options.steps / 20),
                .captured = captured,
                .precision = dtype_named(options.precision),
                .resident = options.resident,
                .profiler = &profiler};
  auto quiet = [](std::int64_t, std::int64_t, double, double) {};
  fmt::print("training {} steps on {}, {} ...\n", options.steps, device.str(), captured ? "captured" : "op by op");
  std::fflush(stdout);
  History history = train(model, corpus.train, recipe, device, quiet);
  auto json = report(history, preset.name, model, device, transfers());
  json["mode"] = captured ? "captured" : "eager";
  run.report.push_back(std::move(json));
  if (auto seen = profiler.take()) run.amdahl = amdahl_line(profile::summarize(*seen));
  return history;
}

/// Largest |a - b| / |a| over the losses that both runs read.
double largest_difference(const History& a, const History& b) {
  double worst = 0;
  for (std::size_t i = 0; i < std::min(a.loss.size(), b.loss.size()); ++i) {
    worst = std::max(worst, std::abs(a.loss[i].loss - b.loss[i].loss) / std::abs(a.loss[i].loss));
  }
  return worst;
}

void print_table(const std::vector<Run>& runs, const CompareOptions& options, const Preset& preset) {
  fmt::print("\n{}: {} steps, seed {}, {}\n", preset.name, options.steps, options.seed, options.precision);
  fmt::print("{:<28} {:>11} {:>11} {:>12} {:>13} {:>9} {:>11} {:>12}\n", "device", "eager ms", "captured ms",
             "tokens/s", "s an epoch", "speed-up", "final loss", "loss differs");
  const double tokens = static_cast<double>(preset.batch * preset.model.seq);
  for (const Run& run : runs) {
    const History& h = run.captured;
    const double differs =
        std::max(largest_difference(runs[0].captured, h), largest_difference(runs[0].captured, run.eager));
    fmt::print("{:<28.28} {:>11.2f} {:>11.2f} {:>12.0f} {:>12.2f}{} {:>8.2f}x {:>11.4f} {:>11.3f}%\n",
               fmt::format("{} {}", run.device.str(), run.device.is_cpu() ? "" : device_name(run.device)),
               run.eager.ms_per_step_median, h.ms_per_step_median, tokens / h.ms_per_step_median * 1e3,
               epoch_seconds(h), h.epoch_seconds.empty() ? "*" : " ",
               runs[0].captured.ms_per_step_median / h.ms_per_step_median, h.loss.back().loss, differs * 100);
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

int run_compare(const CompareOptions& options) {
  constexpr double kAllowed = 0.02;
  Preset preset = find_preset(options.preset);
  if (options.batch > 0) preset.batch = options.batch;
  std::vector<Device> devices;
  for (const std::string& name : options.devices) {
    devices.push_back(select_device(name));
    fmt::print("{}\n", device_line(name, devices.back()));
  }
  data::Corpus corpus = find_corpus(options.data);
  std::vector<Run> runs;
  for (Device device : devices) {
    Run run{device, {}, {}, nlohmann::json::array(), {}};
    run.eager = train_on(device, false, options, preset, corpus, run);
    run.captured = train_on(device, true, options, preset, corpus, run);
    runs.push_back(std::move(run));
  }
  print_table(runs, options, preset);

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
  if (!options.json.empty()) save_text(options.json, all.dump(2) + "\n");
  if (worst <= kAllowed) return 0;
  fmt::print(stderr, "error: the losses part by more than {:.0f} %, so the devices do not compute the same\n",
             kAllowed * 100);
  return 1;
}

}  // namespace wikitext
