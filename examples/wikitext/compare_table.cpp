#include "compare_table.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <etna/etna.h>

namespace wikitext {

using namespace etna;

namespace {

template <typename... T>
void put(std::string& text, fmt::format_string<T...> format, T&&... values) {
  text += fmt::format(format, std::forward<T>(values)...);
}

std::string device_label(const Compared& run) {
  return run.device.is_cpu() ? run.device.str() : fmt::format("{} {}", run.device.str(), device_name(run.device));
}

/// "12.3 s", with a star where it is extrapolated.
std::string epoch_text(const Summary& s) {
  return fmt::format("{:.2f}{}", s.seconds_an_epoch(), s.epoch_seconds.empty() ? "*" : " ");
}

double speed_up(const Compared& yardstick, const Compared& run) {
  return yardstick.captured.ms_per_step_median / run.captured.ms_per_step_median;
}

double difference(const Compared& yardstick, const Compared& run) {
  return std::max(largest_difference(yardstick.captured, run.captured),
                  largest_difference(yardstick.captured, run.eager));
}

const Look* look_at(const Summary& s, std::int64_t step) {
  const auto found = std::find_if(s.looks.begin(), s.looks.end(), [step](const Look& l) { return l.step == step; });
  return found == s.looks.end() ? nullptr : &*found;
}

}  // namespace

std::string Compared::name() const { return fmt::format("{} {}", device.str(), precision); }

double largest_difference(const Summary& a, const Summary& b) {
  double worst = 0;
  for (const Look& look : a.looks) {
    if (const Look* other = look_at(b, look.step))
      worst = std::max(worst, std::abs(look.loss - other->loss) / std::abs(look.loss));
  }
  return worst;
}

std::string table(const std::vector<Compared>& runs) {
  std::string text;
  put(text, "{:<28} {:>9} {:>11} {:>11} {:>12} {:>13} {:>9} {:>11} {:>12}\n", "device", "precision", "eager ms",
      "captured ms", "tokens/s", "s an epoch", "speed-up", "final loss", "loss differs");
  for (const Compared& run : runs) {
    const Summary& c = run.captured;
    put(text, "{:<28.28} {:>9} {:>11.2f} {:>11.2f} {:>12.0f} {:>13} {:>8.2f}x {:>11.4f} {:>11.3f}%\n",
        device_label(run), run.precision, run.eager.ms_per_step_median, c.ms_per_step_median,
        static_cast<double>(c.tokens_per_step) / c.ms_per_step_median * 1e3, epoch_text(c), speed_up(runs[0], run),
        c.looks.back().loss, difference(runs[0], run) * 100);
  }
  text += "tokens/s, epochs, speed-up and final loss are of captured steps\n";
  if (std::any_of(runs.begin(), runs.end(), [](const Compared& r) { return r.captured.epoch_seconds.empty(); })) {
    put(text, "* extrapolated from {} steps to the {} of an epoch; --epoch runs it whole\n", runs[0].captured.steps,
        runs[0].captured.steps_per_epoch);
  }
  return text;
}

std::string losses(const std::vector<Compared>& runs) {
  constexpr std::size_t kMostRows = 12;
  std::string text = fmt::format("{:<8}", "loss at");
  for (const Compared& run : runs) put(text, " {:>16.16}", run.name());
  text += "\n";
  const std::vector<Look>& looks = runs[0].captured.looks;
  const std::size_t rows = std::min(looks.size(), kMostRows);
  for (std::size_t row = 0; row < rows; ++row) {
    const Look& look = looks[rows < 2 ? 0 : row * (looks.size() - 1) / (rows - 1)];
    put(text, "{:<8}", look.step);
    for (const Compared& run : runs) {
      const Look* here = look_at(run.captured, look.step);
      put(text, " {:>16}", here != nullptr ? fmt::format("{:.4f}", here->loss) : "");
    }
    text += "\n";
  }
  return text;
}

std::string conclusion(const std::vector<Compared>& runs) {
  const auto by_epoch = [](const Compared& a, const Compared& b) {
    return a.captured.seconds_an_epoch() < b.captured.seconds_an_epoch();
  };
  const Compared& best = *std::min_element(runs.begin(), runs.end(), by_epoch);
  std::string text = fmt::format("conclusion: {} in {} trains an epoch in {:.2f} s", device_label(best), best.precision,
                                 best.captured.seconds_an_epoch());
  if (&best != &runs[0]) {
    put(text, ", {:.1f} times as fast as {} in {} ({:.2f} s)", speed_up(runs[0], best), device_label(runs[0]),
        runs[0].precision, runs[0].captured.seconds_an_epoch());
  } else if (runs.size() > 1) {
    text += ", and no other run is faster";
  }
  double worst = 0;
  for (const Compared& run : runs) worst = std::max(worst, difference(runs[0], run));
  put(text, "; losses differ by at most {:.3f} %\n", worst * 100);
  return text;
}

std::string picture(const std::vector<Compared>& runs, const std::string& title) {
  std::vector<training::Bars> bars;
  for (const Compared& run : runs) {
    const double eager = run.eager.ms_per_step_median, captured = run.captured.ms_per_step_median;
    bars.push_back(
        {fmt::format("{} {}", training::shortened(device_label(run), 32), run.precision),
         {eager, captured},
         {fmt::format("{:.2f} ms", eager), fmt::format("{:.2f} ms, an epoch {:.2f} s, {:.2f}x", captured,
                                                       run.captured.seconds_an_epoch(), speed_up(runs[0], run))}});
  }
  return training::svg_bars({"op by op", "captured"}, bars, {.title = title + ": ms a step", .width = 860});
}

}  // namespace wikitext
