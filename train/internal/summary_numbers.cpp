#include <etna/train/internal/summary_numbers.h>

#include <cmath>

#include <fmt/format.h>

#include <etna/train/progress.h>

namespace etna::training {
namespace {

using Value = std::optional<double>;

Value count_of(std::uint64_t number) { return static_cast<double>(number); }
/// Figures are 0 where they were not measured.
Value measured(double value) { return value > 0 ? Value(value) : std::nullopt; }

std::string commas(double value) { return with_commas(std::llround(value)); }
std::string two_digits(double value) { return fmt::format("{:.2f}", value); }

// docs/adding-a-summary-number.md
constexpr SummaryNumber kNumbers[] = {
    {.name = "final_loss",
     .value = [](const RunSummary& run) -> Value {
       if (run.losses.empty() || !std::isfinite(run.losses.back().loss)) return std::nullopt;
       return run.losses.back().loss;
     },
     .column = "loss",
     .rank = 0,
     .in_file = false},
    {.name = "valid_perplexity",
     .value = [](const RunSummary& run) { return run.valid_perplexity; },
     .label = "validation perplexity",
     .text = two_digits,
     .column = "ppl valid",
     .rank = 2,
     .unknown = Unknown::null},
    {.name = "test_perplexity",
     .value = [](const RunSummary& run) { return run.test_perplexity; },
     .label = "test perplexity",
     .text = two_digits,
     .column = "ppl test",
     .rank = 2,
     .unknown = Unknown::null},
    {.name = "tokens_per_second",
     .value = [](const RunSummary& run) { return measured(run.tokens_per_second()); },
     .unit = "tokens/s",
     .printed = "{:.0f}",
     .label = "tokens/s",
     .text = commas,
     .column = "tokens/s",
     .rank = 6},
    {.name = "steps",
     .value = [](const RunSummary& run) { return count_of(static_cast<std::uint64_t>(run.steps)); },
     .integer = true,
     .label = "steps",
     .text = commas},
    {.name = "tokens",
     .value =
         [](const RunSummary& run) { return count_of(static_cast<std::uint64_t>(run.steps * run.tokens_per_step)); },
     .integer = true},
    {.name = "seconds",
     .value = [](const RunSummary& run) { return Value(run.seconds); },
     .label = "time",
     .text = clock_text},
    {.name = "ms_per_step_median",
     .value = [](const RunSummary& run) { return measured(run.ms_per_step_median); },
     .unit = "ms a step (median)",
     .printed = "{:.2f}"},
    {.name = "tokens_per_step",
     .value = [](const RunSummary& run) { return measured(static_cast<double>(run.tokens_per_step)); },
     .unit = "tokens a step",
     .integer = true,
     .printed = "{:.0f}",
     .label = "tokens a step",
     .text = commas,
     .column = "tokens/step"},
    {.name = "valid_word_perplexity",
     .value = [](const RunSummary& run) { return run.valid_word_perplexity; },
     .label = "validation perplexity a word",
     .text = two_digits,
     .column = "ppl valid_word",
     .rank = 2,
     .unknown = Unknown::absent},
    {.name = "test_word_perplexity",
     .value = [](const RunSummary& run) { return run.test_word_perplexity; },
     .label = "test perplexity a word",
     .text = two_digits,
     .column = "ppl test_word",
     .rank = 2,
     .unknown = Unknown::absent},
    {.name = "epoch_seconds",
     .value = [](const RunSummary& run) { return measured(run.seconds_per_epoch()); },
     .column = "s/epoch",
     .rank = 8},
    {.name = "peak_bytes.host",
     .value = [](const RunSummary& run) { return count_of(run.host_peak); },
     .integer = true},
    {.name = "peak_bytes.device",
     .value = [](const RunSummary& run) { return count_of(run.device.is_cpu() ? 0 : run.memory.peak); },
     .integer = true},
    {.name = "transfers.h2d_bytes",
     .value = [](const RunSummary& run) { return count_of(run.transfers.h2d_bytes); },
     .integer = true},
    {.name = "transfers.d2h_bytes",
     .value = [](const RunSummary& run) { return count_of(run.transfers.d2h_bytes); },
     .integer = true},
    {.name = "transfers.d2h_calls",
     .value = [](const RunSummary& run) { return count_of(run.transfers.d2h_calls); },
     .integer = true},
};

}  // namespace

std::span<const SummaryNumber> summary_numbers() { return kNumbers; }

std::string_view perplexity_set(std::string_view name) {
  constexpr std::string_view kEnd = "_perplexity";
  return name.ends_with(kEnd) ? name.substr(0, name.size() - kEnd.size()) : std::string_view();
}

}  // namespace etna::training
