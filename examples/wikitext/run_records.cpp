#include "run_records.h"

#include <cmath>

#include <fmt/format.h>

#include <etna/data/text_file.h>
#include <etna/device/internal/os/process.h>
#include <etna/etna.h>

#include "saved_model.h"

namespace wikitext {

using namespace etna;

namespace {

constexpr const char *kRunKey = "run", *kEnvironmentFile = "environment.json", *kSummaryFile = "summary.json";

/// A JSON file of the run's folder; null where it is missing or damaged.
nlohmann::json file_of_run(const std::filesystem::path& file) {
  std::error_code none;
  if (!std::filesystem::is_regular_file(file, none)) return nullptr;
  return nlohmann::json::parse(data::read_text_file(file), nullptr, false);
}

/// Names and values that decide how fast a run is.
std::vector<std::pair<std::string, std::string>> environment(Device device) {
  std::string host = os::host_name();
  if (host.empty()) host = "?";
  return {{"device", device.str()}, {"device name", device_name(device)}, {"compiler", __VERSION__}, {"host", host}};
}

std::string number(const std::optional<double>& value) { return value ? fmt::format("{:.2f}", *value) : "–"; }

}  // namespace

RunRecords::RunRecords(std::filesystem::path folder, const Metadata& before, std::string preset, std::string corpus,
                       const SettingList& settings, Device device)
    : folder_(std::move(folder)),
      preset_(std::move(preset)),
      corpus_(std::move(corpus)),
      time_(training::utc_time()),
      config_toml_(settings.toml()),
      config_(settings.json()),
      device_(device) {
  config_["preset"] = preset_;
  metadata_ = {{kSettingsKey, config_toml_},
               {kPresetKey, preset_},
               {kCorpusKey, corpus_},
               {kRunKey, before.contains(kRunKey) ? before.at(kRunKey) : training::new_run_id()}};
}

void RunRecords::begin(const training::RunFolder& folder) const {
  folder.write("config.toml", config_toml_);
  nlohmann::json facts = {{"corpus", corpus_}, {"time", time_}, {kRunKey, metadata_.at(kRunKey)}};
  for (const auto& [name, value] : environment(device_)) facts[name] = value;
  folder.write(kEnvironmentFile, facts.dump(2) + "\n");
}

void RunRecords::end(training::Outcome outcome, const Summary& s) const {
  training::RunRecord record;
  record.id = metadata_.at(kRunKey);
  record.time = time_;
  record.program = "wikitext train";
  if (!folder_.empty()) record.folder = std::filesystem::absolute(folder_).lexically_normal();
  record.device = fmt::format("{} ({})", device_.str(), device_name(device_));
  record.config = config_.dump();
  record.steps = s.steps;
  record.outcome = outcome;
  if (s.steps_per_epoch > 0 && s.ms_per_step_median > 0)
    record.numbers.emplace_back("epoch_seconds", s.seconds_an_epoch());
  if (s.seconds > 0 && s.steps > s.first_step) record.numbers.emplace_back("tokens_per_second", s.tokens_per_second());
  if (!s.looks.empty() && std::isfinite(s.looks.back().loss))
    record.numbers.emplace_back("final_loss", s.looks.back().loss);
  if (s.valid_perplexity) record.perplexities.emplace_back("valid", *s.valid_perplexity);
  if (s.test_perplexity) record.perplexities.emplace_back("test", *s.test_perplexity);
  if (s.valid_word_perplexity) record.perplexities.emplace_back("valid_word", *s.valid_word_perplexity);
  if (s.test_word_perplexity) record.perplexities.emplace_back("test_word", *s.test_word_perplexity);
  try {
    training::append_run(record);
  } catch (const Error& error) {
    fmt::print(stderr, "warning: {}\n", error.what());
  }
}

void RunRecords::finish(const training::RunFolder& folder, const std::string& program, const Summary& s,
                        const nlohmann::json& result, const std::string& passage) const {
  folder.write(kSummaryFile, result.dump(2) + "\n");
  const training::Metrics metrics = training::read_metrics(folder.path());
  std::vector<training::RunReport::Curves> curves = training::curves_of(metrics);
  training::RunReport report;
  report.title = fmt::format("wikitext, {}", preset_);
  report.note = corpus_;
  report.summary = {{"validation perplexity", number(s.valid_perplexity)},
                    {"test perplexity", number(s.test_perplexity)},
                    {"tokens/s", training::with_commas(std::llround(s.tokens_per_second()))},
                    {"steps", training::with_commas(s.steps)},
                    {"time", training::clock_text(s.seconds)}};
  if (s.valid_word_perplexity) {
    report.summary.push_back({"validation perplexity a word", number(s.valid_word_perplexity)});
    report.summary.push_back({"test perplexity a word", number(s.test_word_perplexity)});
  }
  report.curves = curves;
  report.config_json = config_.dump();
  report.environment = environment(device_);
  report.profile_svg = s.profile_svg;
  report.sample = passage;
  training::write_report(folder.path(), report);
  if (!curves.empty()) {
    folder.write("loss.svg", training::svg_plot(curves.front().series, curves.front().options));
    fmt::print("{}\n",
               training::terminal_plot(curves.front().series,
                                       {.title = "loss", .height = 14, .charset = training::terminal_charset()}));
  }
  const training::CheckpointFiles files = training::find_checkpoints(folder.checkpoints());
  const std::filesystem::path etna = std::filesystem::path(program).parent_path() / "etna";
  fmt::print(
      "report: {0}/report.html (open it in a browser)\n"
      "weights: {2}\n"
      "next:\n"
      "  {1} generate --run {0} --prompt \"The river\"   # let it write\n"
      "  {1} eval --run {0}                             # measure it in a process of its own\n"
      "  {1} train --resume --out {0} --epochs N        # train it longer\n",
      training::printable(folder.path().string()), training::printable(program),
      training::printable((files.best.empty() ? files.latest : files.best).string()));
  // A demo builds no more than this program.
  if (std::filesystem::exists(etna))
    fmt::print("  {} runs                                            # compare all runs\n",
               training::printable(etna.string()));
}

std::int64_t reported_step(const std::filesystem::path& folder) {
  const nlohmann::json summary = file_of_run(folder / kSummaryFile);
  const auto steps = summary.is_object() ? summary.find("steps") : summary.end();
  return steps != summary.end() && steps->is_number_integer() ? steps->get<std::int64_t>() : -1;
}

void require_own_checkpoints(const std::filesystem::path& folder) {
  const nlohmann::json facts = file_of_run(folder / kEnvironmentFile);
  const auto id = facts.is_object() ? facts.find(kRunKey) : facts.end();
  // Folders of versions that did not write it have none.
  std::string own = id != facts.end() && id->is_string() ? id->get<std::string>() : "";
  training::CheckpointFiles files = training::find_checkpoints(folder / "checkpoints");
  for (const FilePath& named : {files.latest, files.best})
    if (!named.empty()) files.steps.push_back(named);
  for (const FilePath& file : files.steps) {
    Metadata metadata;
    try {
      metadata = read_checkpoint(file).metadata;
    } catch (const FormatError&) {
      continue;  // the checkpointer says so when it restores
    }
    const auto run = metadata.find(kRunKey);
    if (run == metadata.end()) continue;
    if (own.empty()) own = run->second;
    if (run->second != own)
      throw FormatError(
          fmt::format("{}: is a checkpoint of run {}, and the folder is that of run {}; put its own "
                      "checkpoints back, or begin anew with --force",
                      file.string(), training::printable(run->second), training::printable(own)));
  }
}

}  // namespace wikitext
