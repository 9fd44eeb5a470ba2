#include "report.h"

#include <algorithm>

#include <fmt/format.h>

namespace wikitext {

using namespace etna;

double Summary::tokens_per_second() const {
  return seconds > 0 ? static_cast<double>((steps - first_step) * tokens_per_step) / seconds : 0;
}

double Summary::seconds_an_epoch() const {
  if (epoch_seconds.empty()) return ms_per_step_median * 1e-3 * static_cast<double>(steps_per_epoch);
  std::vector<double> sorted = epoch_seconds;
  std::sort(sorted.begin(), sorted.end());
  return sorted[sorted.size() / 2];
}

Summary summary_of(const TrainingRun& run, const LossMeter& meter, std::int64_t first_step) {
  Summary summary;
  summary.looks = meter.looks();
  summary.seconds = meter.seconds();
  summary.ms_per_step_median = meter.ms_per_step_median();
  summary.first_step = first_step;
  summary.steps = run.step();
  summary.tokens_per_step = run.tokens_per_step();
  summary.steps_per_epoch = run.steps_per_epoch();
  summary.program = run.program();
  return summary;
}

void print_summary(const Summary& s) {
  fmt::print("trained {} steps in {:.1f} s: {:.0f} tokens/s, {:.2f} ms a step (median)\n", s.steps - s.first_step,
             s.seconds, s.tokens_per_second(), s.ms_per_step_median);
  for (std::size_t e = 0; e < s.epoch_loss.size(); ++e)
    fmt::print("epoch {}: mean training loss {:.4f}\n",
               (s.first_step / std::max<std::int64_t>(1, s.steps_per_epoch)) + static_cast<std::int64_t>(e) + 1,
               s.epoch_loss[e]);
  fmt::print("memory: at most {}: {}\n", readable_bytes(s.memory.peak), str(s.memory.at_peak));
  if (s.program) fmt::print("{}", s.program->str());
}

nlohmann::json to_json(const Summary& s, const TextModel& model, Device device, const char* command) {
  nlohmann::json losses = nlohmann::json::array();
  for (const Look& look : s.looks) losses.push_back({{"step", look.step}, {"loss", look.loss}});
  const auto number = [](const std::optional<double>& value) -> nlohmann::json {
    return value ? nlohmann::json(*value) : nlohmann::json(nullptr);
  };
  return {
      {kCommandKey, command},
      {"device", device.str()},
      {"device_name", device_name(device)},
      {"preset", s.preset},
      {"precision", s.precision},
      {"mode", s.mode},
      {"parameters", model.module().num_parameters()},
      {"steps", s.steps},
      {"tokens", s.steps * s.tokens_per_step},
      {"seconds", s.seconds},
      {"tokens_per_second", s.tokens_per_second()},
      {"ms_per_step_median", s.ms_per_step_median},
      {"epoch_seconds", s.seconds_an_epoch()},
      {"epoch_extrapolated", s.epoch_seconds.empty()},
      {"loss", losses},
      {"epoch_loss", s.epoch_loss},
      {"valid_perplexity", number(s.valid_perplexity)},
      {"test_perplexity", number(s.test_perplexity)},
      {"peak_bytes", {{"host", memory_stats(kCPU).peak}, {"device", device.is_cpu() ? 0 : s.memory.peak}}},
      {"transfers",
       {{"h2d_bytes", s.transfers.h2d_bytes},
        {"d2h_bytes", s.transfers.d2h_bytes},
        {"d2h_calls", s.transfers.d2h_calls}}},
  };
}

}  // namespace wikitext
