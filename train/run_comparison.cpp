#include <etna/train/runs.h>

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <etna/device/output_file.h>
#include <etna/train/progress.h>
#include <etna/train/report.h>

namespace etna::training {
namespace {

template <typename... T>
void put(std::string& text, fmt::format_string<T...> format, T&&... values) {
  text += fmt::format(format, std::forward<T>(values)...);
}

/// "vulkan:0 NVIDIA H200"
std::string device_label(const RunPair& pair) {
  const Device device = pair.captured.device;
  return device.is_cpu() ? device.str() : fmt::format("{} {}", device.str(), device_name(device));
}

/// "12.3", with a star where it is extrapolated.
std::string epoch_text(const RunSummary& run) {
  return fmt::format("{:.2f}{}", run.seconds_per_epoch(), run.epoch_seconds.empty() ? "*" : " ");
}

double speedup(const RunPair& yardstick, const RunPair& pair) {
  return yardstick.captured.ms_per_step_median / pair.captured.ms_per_step_median;
}

const LossReading* reading_at(const RunSummary& run, std::int64_t step) {
  const auto found = std::find_if(run.losses.begin(), run.losses.end(),
                                  [step](const LossReading& reading) { return reading.step == step; });
  return found == run.losses.end() ? nullptr : &*found;
}

double loss_difference(const RunSummary& yardstick, const RunSummary& run) {
  double worst = 0;
  for (const LossReading& reading : yardstick.losses) {
    if (const LossReading* other = reading_at(run, reading.step))
      worst = std::max(worst, std::abs(reading.loss - other->loss) / std::abs(reading.loss));
  }
  return worst;
}

double loss_difference(const RunPair& yardstick, const RunPair& pair) {
  return std::max(loss_difference(yardstick.captured, pair.captured), loss_difference(yardstick.captured, pair.eager));
}

std::string comparison_table(const std::vector<RunPair>& pairs) {
  std::string text;
  put(text, "{:<28} {:>9} {:>11} {:>11} {:>12} {:>13} {:>9} {:>11} {:>12}\n", "device", "precision", "eager ms",
      "captured ms", "tokens/s", "s an epoch", "speed-up", "final loss", "loss differs");
  for (const RunPair& pair : pairs) {
    const RunSummary& c = pair.captured;
    put(text, "{:<28.28} {:>9} {:>11.2f} {:>11.2f} {:>12.0f} {:>13} {:>8.2f}x {:>11.4f} {:>11.3f}%\n",
        device_label(pair), c.precision, pair.eager.ms_per_step_median, c.ms_per_step_median,
        static_cast<double>(c.tokens_per_step) / c.ms_per_step_median * 1e3, epoch_text(c), speedup(pairs[0], pair),
        c.losses.back().loss, loss_difference(pairs[0], pair) * 100);
  }
  text += "tokens/s, epochs, speed-up and final loss are of captured steps\n";
  const RunSummary& first = pairs[0].captured;
  if (std::any_of(pairs.begin(), pairs.end(), [](const RunPair& p) { return p.captured.epoch_seconds.empty(); })) {
    put(text, "* extrapolated from {} steps to the {} of an epoch; --epoch runs it whole\n", first.steps,
        first.steps_per_epoch);
  }
  return text;
}

std::string losses_side_by_side(const std::vector<RunPair>& pairs) {
  constexpr std::size_t kMostRows = 12;
  std::string text = fmt::format("{:<8}", "loss at");
  for (const RunPair& pair : pairs) put(text, " {:>16.16}", pair.name());
  text += "\n";
  const std::vector<LossReading>& readings = pairs[0].captured.losses;
  const std::size_t rows = std::min(readings.size(), kMostRows);
  for (std::size_t row = 0; row < rows; ++row) {
    const LossReading& reading = readings[rows < 2 ? 0 : row * (readings.size() - 1) / (rows - 1)];
    put(text, "{:<8}", reading.step);
    for (const RunPair& pair : pairs) {
      const LossReading* here = reading_at(pair.captured, reading.step);
      put(text, " {:>16}", here != nullptr ? fmt::format("{:.4f}", here->loss) : "");
    }
    text += "\n";
  }
  return text;
}

double largest_difference(const std::vector<RunPair>& pairs) {
  double worst = 0;
  for (const RunPair& pair : pairs) worst = std::max(worst, loss_difference(pairs[0], pair));
  return worst;
}

std::string conclusion_of(const std::vector<RunPair>& pairs) {
  const RunPair& first = pairs[0];
  const RunPair& best = *std::min_element(pairs.begin(), pairs.end(), [](const RunPair& a, const RunPair& b) {
    return a.captured.seconds_per_epoch() < b.captured.seconds_per_epoch();
  });
  std::string text = fmt::format("conclusion: {} in {} trains an epoch in {:.2f} s", device_label(best),
                                 best.captured.precision, best.captured.seconds_per_epoch());
  if (&best != &first) {
    put(text, ", {:.1f} times as fast as {} in {} ({:.2f} s)", speedup(first, best), device_label(first),
        first.captured.precision, first.captured.seconds_per_epoch());
  } else if (pairs.size() > 1) {
    text += ", and no other run is faster";
  }
  put(text, "; losses differ by at most {:.3f} %\n", largest_difference(pairs) * 100);
  return text;
}

std::string comparison_text(const std::vector<RunPair>& pairs) {
  std::string text = comparison_table(pairs);
  for (const RunPair& pair : pairs) {
    if (!pair.amdahl.empty()) put(text, "{}: {}\n", pair.name(), pair.amdahl);
  }
  put(text, "\n{}\n{}", losses_side_by_side(pairs), conclusion_of(pairs));
  return text;
}

std::string comparison_picture(const std::vector<RunPair>& pairs, const std::string& title) {
  std::vector<Bars> bars;
  for (const RunPair& pair : pairs) {
    const double eager = pair.eager.ms_per_step_median, captured = pair.captured.ms_per_step_median;
    bars.push_back(
        {fmt::format("{} {}", shortened(device_label(pair), 32), pair.captured.precision),
         {eager, captured},
         {fmt::format("{:.2f} ms", eager), fmt::format("{:.2f} ms, an epoch {:.2f} s, {:.2f}x", captured,
                                                       pair.captured.seconds_per_epoch(), speedup(pairs[0], pair))}});
  }
  return svg_bars({"op by op", "captured"}, bars, {.title = title + ": ms a step", .width = 860});
}

std::string comparison_json(const std::vector<RunPair>& pairs) {
  nlohmann::json all = nlohmann::json::array();
  for (const RunPair& pair : pairs) {
    for (const RunSummary* run : {&pair.eager, &pair.captured}) {
      nlohmann::json entry = nlohmann::json::parse(json_text(*run));
      entry["loss_difference"] = loss_difference(pairs[0].captured, *run);
      entry["amdahl"] = run == &pair.captured ? pair.amdahl : "";
      all.push_back(std::move(entry));
    }
  }
  return all.dump(2);
}

}  // namespace

std::function<bool(std::int64_t step)> comparable_reads(std::int64_t steps, std::int64_t total) {
  return [steps, total](std::int64_t step) {
    if (step == 1 || step == total) return true;
    const std::int64_t span = step <= steps ? steps : total;
    return step % std::max<std::int64_t>(1, span / 20) == 0;
  };
}

std::string RunPair::name() const { return fmt::format("{} {}", captured.device.str(), captured.precision); }

void begin_comparable_run(Device device) {
  reset_peak_memory(kCPU);
  if (!device.is_cpu()) reset_peak_memory(device);
  reset_transfers();
}

bool report_comparison(const std::vector<RunPair>& pairs, const std::string& title, const FilePath& picture,
                       const FilePath& json) {
  constexpr double kAllowed = 0.02;
  fmt::print("\n{}\n{}", title, comparison_text(pairs));
  if (!picture.empty()) {
    io::write_file(picture, comparison_picture(pairs, title));
    fmt::print("picture: {}\n", printable(picture.string()));
  }
  if (!json.empty()) io::write_file(json, comparison_json(pairs) + "\n");
  if (largest_difference(pairs) <= kAllowed) return true;
  fmt::print(stderr, "error: the losses part by more than {:.0f} %, so the devices do not compute the same\n",
             kAllowed * 100);
  return false;
}

}  // namespace etna::training
