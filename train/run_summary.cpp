#include <etna/train/runs.h>

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <etna/train/internal/summary_numbers.h>

namespace etna::training {
namespace {

/// "/peak_bytes/host" for "peak_bytes.host".
nlohmann::json::json_pointer nested(std::string_view name) {
  std::string path = "/" + std::string(name);
  std::replace(path.begin(), path.end(), '.', '/');
  return nlohmann::json::json_pointer(path);
}

nlohmann::json file_value(const SummaryNumber& number, const std::optional<double>& value) {
  if (!value && number.unknown == Unknown::null) return nullptr;
  if (number.integer) return static_cast<std::int64_t>(value.value_or(0));
  return value.value_or(0);
}

}  // namespace

double RunSummary::tokens_per_second() const {
  return seconds > 0 ? static_cast<double>((steps - first_step) * tokens_per_step) / seconds : 0;
}

double RunSummary::seconds_per_epoch() const {
  if (epoch_seconds.empty()) return ms_per_step_median * 1e-3 * static_cast<double>(steps_per_epoch);
  std::vector<double> sorted = epoch_seconds;
  std::sort(sorted.begin(), sorted.end());
  return sorted[sorted.size() / 2];
}

void RunSummary::measure_memory() {
  transfers = etna::transfers();
  memory = memory_stats(device);
  host_peak = memory_stats(kCPU).peak;
}

std::string RunSummary::str() const {
  std::string text = fmt::format("trained {} steps in {:.1f} s", steps - first_step, seconds);
  const char* separator = ": ";
  for (const SummaryNumber& number : summary_numbers()) {
    if (number.printed.empty()) continue;
    text += separator + fmt::format(fmt::runtime(number.printed), number.value(*this).value_or(0));
    text += " " + std::string(number.unit);
    separator = ", ";
  }
  text += "\n";
  const std::int64_t epochs_before = first_step / std::max<std::int64_t>(1, steps_per_epoch);
  for (std::size_t epoch = 0; epoch < epoch_loss.size(); ++epoch) {
    text += fmt::format("epoch {}: mean training loss {:.4f}\n", epochs_before + static_cast<std::int64_t>(epoch) + 1,
                        epoch_loss[epoch]);
  }
  text += fmt::format("memory: at most {}: {}\n", readable_bytes(memory.peak), etna::str(memory.at_peak));
  return text + program;
}

std::string RunSummary::perplexities() const {
  const std::string tokens =
      fmt::format("validation {:.2f}, test {:.2f}", valid_perplexity.value_or(0), test_perplexity.value_or(0));
  if (!valid_word_perplexity) return tokens;
  return fmt::format("{} a token; validation {:.2f}, test {:.2f} a word", tokens, *valid_word_perplexity,
                     test_word_perplexity.value_or(0));
}

std::string json_text(const RunSummary& summary) {
  nlohmann::json losses = nlohmann::json::array();
  for (const LossReading& reading : summary.losses) losses.push_back({{"step", reading.step}, {"loss", reading.loss}});
  nlohmann::json all = {{"command", summary.command},
                        {"device", summary.device.str()},
                        {"device_name", device_name(summary.device)},
                        {"preset", summary.preset},
                        {"precision", summary.precision},
                        {"mode", summary.mode},
                        {"parameters", summary.parameters},
                        {"loss", losses},
                        {"epoch_loss", summary.epoch_loss},
                        {"epoch_extrapolated", summary.epoch_seconds.empty()}};
  for (const SummaryNumber& number : summary_numbers()) {
    const std::optional<double> value = number.value(summary);
    if (number.in_file && (value || number.unknown != Unknown::absent))
      all[nested(number.name)] = file_value(number, value);
  }
  return all.dump(2);
}

}  // namespace etna::training
