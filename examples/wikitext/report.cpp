#include "report.h"

#include <algorithm>
#include <string>

#include <etna/device/memory.h>

namespace wikitext {

using namespace etna;

double epoch_seconds(const History& history) {
  if (history.epoch_seconds.empty()) {
    return history.ms_per_step_median * 1e-3 * static_cast<double>(history.steps_per_epoch);
  }
  std::vector<double> sorted = history.epoch_seconds;
  std::sort(sorted.begin(), sorted.end());
  return sorted[sorted.size() / 2];
}

std::string with_commas(std::int64_t number) {
  std::string text = std::to_string(number);
  for (auto at = static_cast<std::ptrdiff_t>(text.size()) - 3; at > (number < 0 ? 1 : 0); at -= 3) {
    text.insert(static_cast<std::size_t>(at), 1, ',');
  }
  return text;
}

nlohmann::json report(const History& history, const std::string& preset, const nn::LanguageModel& model, Device device,
                      const Transfers& crossed) {
  nlohmann::json losses = nlohmann::json::array();
  for (const LossAt& at : history.loss) losses.push_back({{"step", at.step}, {"loss", at.loss}});
  return {
      {"device", device.str()},
      {"device_name", device_name(device)},
      {"preset", preset},
      {"precision", name(history.precision)},
      {"parameters", model.num_parameters()},
      {"steps", history.steps},
      {"tokens", history.tokens},
      {"seconds", history.seconds},
      {"tokens_per_second", history.tokens_per_second()},
      {"ms_per_step_median", history.ms_per_step_median},
      {"epoch_seconds", epoch_seconds(history)},
      {"epoch_extrapolated", history.epoch_seconds.empty()},
      {"loss", losses},
      {"epoch_loss", history.epoch_loss},
      {"peak_bytes", {{"host", memory_stats(kCPU).peak}, {"device", device.is_cpu() ? 0 : memory_stats(device).peak}}},
      {"transfers",
       {{"h2d_bytes", crossed.h2d_bytes}, {"d2h_bytes", crossed.d2h_bytes}, {"d2h_calls", crossed.d2h_calls}}},
  };
}

}  // namespace wikitext
