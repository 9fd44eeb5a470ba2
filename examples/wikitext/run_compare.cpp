#include <algorithm>
#include <cmath>
#include <memory>

#include <fmt/format.h>

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

struct Run {
  Device device;
  History history;
  nlohmann::json report;
};

Run train_on(Device device, const CompareOptions& options, const Preset& preset, const data::Corpus& corpus) {
  manual_seed(options.seed);
  nn::LanguageModel model(model_config(preset, static_cast<std::int64_t>(corpus.vocab.size())));
  model.to(device);
  reset_peak_memory(kCPU);
  if (device.is_vulkan()) reset_peak_memory(device);
  reset_transfers();
  Recipe recipe{.batch = preset.batch,
                .steps = options.steps,
                .lr = preset.lr,
                .log_every = std::max<std::int64_t>(1, options.steps / 20)};
  auto quiet = [](std::int64_t, std::int64_t, double, double) {};
  fmt::print("training {} steps on {} ...\n", options.steps, device.str());
  std::fflush(stdout);
  History history = train(model, corpus.train, recipe, device, quiet);
  auto json = report(history, preset.name, model, device, transfers());
  return {device, std::move(history), std::move(json)};
}

/// Largest |a - b| / |a| over the losses both looked at.
double largest_difference(const History& a, const History& b) {
  double worst = 0;
  for (std::size_t i = 0; i < std::min(a.loss.size(), b.loss.size()); ++i) {
    worst = std::max(worst, std::abs(a.loss[i].loss - b.loss[i].loss) / std::abs(a.loss[i].loss));
  }
  return worst;
}

}  // namespace

int run_compare(const CompareOptions& options) {
  constexpr double kAllowed = 0.02;
  Preset preset = find_preset(options.preset);
  std::vector<Device> devices;
  for (const std::string& name : options.devices) {
    devices.push_back(select_device(name));
    fmt::print("{}\n", device_line(name, devices.back()));
  }
  data::Corpus corpus = find_corpus(options.data);
  std::vector<Run> runs;
  for (Device device : devices) runs.push_back(train_on(device, options, preset, corpus));

  fmt::print("\n{}: {} steps, seed {}\n", preset.name, options.steps, options.seed);
  fmt::print("{:<28} {:>11} {:>12} {:>13} {:>9} {:>11} {:>12}\n", "device", "ms a step", "tokens/s", "s an epoch",
             "speed-up", "final loss", "loss differs");
  bool together = true;
  double tokens = static_cast<double>(preset.batch * preset.model.seq), first_ms = runs[0].history.ms_per_step_median;
  for (const Run& run : runs) {
    const History& h = run.history;
    double differs = largest_difference(runs[0].history, h);
    together = together && differs <= kAllowed;
    fmt::print("{:<28.28} {:>11.2f} {:>12.0f} {:>12.2f}{} {:>8.2f}x {:>11.4f} {:>11.3f}%\n",
               fmt::format("{} {}", run.device.str(), run.device.is_cpu() ? "" : device_name(run.device)),
               h.ms_per_step_median, tokens / h.ms_per_step_median * 1e3, epoch_seconds(h),
               h.epoch_seconds.empty() ? "*" : " ", first_ms / h.ms_per_step_median, h.loss.back().loss, differs * 100);
  }
  if (std::any_of(runs.begin(), runs.end(), [](const Run& r) { return r.history.epoch_seconds.empty(); })) {
    fmt::print("* extrapolated from {} steps to the {} of an epoch\n", options.steps, runs[0].history.steps_per_epoch);
  }
  if (!options.json.empty()) {
    nlohmann::json all = nlohmann::json::array();
    for (Run& run : runs) {
      run.report["loss_difference"] = largest_difference(runs[0].history, run.history);
      all.push_back(std::move(run.report));
    }
    save_text(options.json, all.dump(2) + "\n");
  }
  if (together) return 0;
  fmt::print(stderr, "error: the losses part by more than {:.0f} %, so the devices do not compute the same\n",
             kAllowed * 100);
  return 1;
}

}  // namespace wikitext
