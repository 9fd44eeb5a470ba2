#include <etna/train/runs.h>

#include <filesystem>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <etna/device/internal/os/process.h>
#include <etna/device/profile/profile.h>
#include <etna/train/checkpointer.h>
#include <etna/train/internal/read_bytes.h>
#include <etna/train/internal/summary_numbers.h>
#include <etna/train/metrics.h>
#include <etna/train/progress.h>
#include <etna/train/report.h>
#include <etna/train/settings.h>

namespace etna::training {
namespace {

constexpr const char *kEnvironmentFile = "environment.json", *kSummaryFile = "summary.json";

/// A JSON file of the run's folder; null where it is missing or damaged.
nlohmann::json file_of_run(const FilePath& file) {
  std::error_code none;
  if (!std::filesystem::is_regular_file(file, none)) return nullptr;
  return nlohmann::json::parse(read_bytes(file), nullptr, false);
}

/// Names and values that decide how fast a run is.
RunReport::Pairs environment_of(Device device) {
  std::string host = os::host_name();
  if (host.empty()) host = "?";
  return {{"device", device.str()}, {"device name", device_name(device)}, {"compiler", __VERSION__}, {"host", host}};
}

/// Refuses checkpoints that belong to another run than the folder or than each other.
void require_own_checkpoints(const FilePath& folder) {
  const nlohmann::json facts = file_of_run(folder / kEnvironmentFile);
  const auto id = facts.is_object() ? facts.find(RunRecords::kRun) : facts.end();
  // Folders of versions that did not write it have none.
  std::string own = id != facts.end() && id->is_string() ? id->get<std::string>() : "";
  CheckpointFiles files = find_checkpoints(folder / "checkpoints");
  for (const FilePath& named : {files.latest, files.best})
    if (!named.empty()) files.steps.push_back(named);
  for (const FilePath& file : files.steps) {
    Metadata metadata;
    try {
      metadata = read_checkpoint(file).metadata;
    } catch (const FormatError&) {
      continue;  // the checkpointer says so when it restores
    }
    const auto run = metadata.find(RunRecords::kRun);
    if (run == metadata.end()) continue;
    if (own.empty()) own = run->second;
    if (run->second != own)
      throw FormatError(
          fmt::format("{}: is a checkpoint of run {}, and the folder is that of run {}; put its own "
                      "checkpoints back, or begin anew with --force",
                      file.string(), printable(run->second), printable(own)));
  }
}

RunReport::Pairs report_numbers(const RunSummary& summary) {
  RunReport::Pairs pairs;
  for (const SummaryNumber& number : summary_numbers()) {
    const std::optional<double> value = number.value(summary);
    if (number.label.empty() || (!value && number.unknown == Unknown::absent)) continue;
    std::string text = "–";
    if (value || number.unknown == Unknown::zero)
      text = number.text != nullptr ? number.text(value.value_or(0))
                                    : fmt::format(fmt::runtime(number.printed), value.value_or(0));
    pairs.emplace_back(number.label, text);
  }
  return pairs;
}

}  // namespace

std::unique_ptr<RunFolder> open_run(const FilePath& folder, bool resume, bool force) try {
  if (folder.empty()) return nullptr;
  auto held = std::make_unique<RunFolder>(folder, resume  ? ExistingRun::resume
                                                  : force ? ExistingRun::overwrite
                                                          : ExistingRun::refuse);
  if (resume) require_own_checkpoints(folder);
  return held;
} catch (const FolderTaken& error) {
  throw FormatError(fmt::format("{}: --resume goes on with a run, --force begins anew and removes it", error.what()));
}

FilePath best_checkpoint(const FilePath& folder_or_file) {
  std::error_code ignored;
  if (std::filesystem::is_regular_file(folder_or_file, ignored)) return folder_or_file;
  const CheckpointFiles files = find_checkpoints(folder_or_file / "checkpoints");
  if (!files.best.empty()) return files.best;
  if (!files.latest.empty()) return files.latest;
  throw FormatError(
      fmt::format("{} has no checkpoints; name the --out folder of a training run", folder_or_file.string()));
}

Metadata newest_metadata(const FilePath& folder) {
  for (const FilePath& file : find_checkpoints(folder / "checkpoints").steps) {
    try {
      return read_checkpoint(file).metadata;
    } catch (const FormatError&) {
      continue;  // the checkpointer says so when it restores
    }
  }
  throw FormatError(fmt::format("{} has no checkpoint that can be used; --force begins anew", folder.string()));
}

std::int64_t reported_step(const FilePath& folder) {
  const nlohmann::json summary = file_of_run(folder / kSummaryFile);
  const auto steps = summary.is_object() ? summary.find("steps") : summary.end();
  return steps != summary.end() && steps->is_number_integer() ? steps->get<std::int64_t>() : -1;
}

void report_profile(const std::optional<profile::Profile>& seen, const std::string& trace) {
  if (!seen) {
    fmt::print("profile: none, the training ended before the steps that warm up were over; try more --steps\n");
    return;
  }
  fmt::print("{}", profile::report(*seen));
  if (trace.empty()) return;
  profile::write_trace(*seen, trace);
  fmt::print("trace: {}{}\n", trace, trace.ends_with(".svg") ? "" : ", for ui.perfetto.dev");
}

const std::string& RunRecords::settings_of(const Metadata& checkpoint, const std::string& missing) {
  const auto settings = checkpoint.find(kSettings);
  if (settings == checkpoint.end()) throw FormatError(missing);
  return settings->second;
}

std::string RunRecords::preset_of(const Metadata& checkpoint, const std::string& otherwise) {
  const auto preset = checkpoint.find(kPreset);
  return preset == checkpoint.end() ? otherwise : preset->second;
}

RunRecords::RunRecords(Facts facts, const SettingList& settings)
    : facts_(std::move(facts)), time_(utc_time()), config_toml_(settings.toml()) {
  const auto before = facts_.resumed.find(kRun);
  id_ = before != facts_.resumed.end() ? before->second : new_run_id();
  nlohmann::json config = nlohmann::json::parse(settings.json());
  config["preset"] = facts_.preset;
  config_json_ = config.dump();
}

Metadata RunRecords::metadata() const {
  return {{kSettings, config_toml_}, {kPreset, facts_.preset}, {kCorpus, facts_.corpus}, {kRun, id_}};
}

void RunRecords::begin(const RunFolder& folder) const {
  folder.write("config.toml", config_toml_);
  nlohmann::json file = {{"corpus", facts_.corpus}, {"time", time_}, {kRun, id_}};
  for (const auto& [name, value] : environment_of(facts_.device)) file[name] = value;
  folder.write(kEnvironmentFile, file.dump(2) + "\n");
}

void RunRecords::end(Outcome outcome, const RunSummary& summary) const {
  RunRecord record;
  record.id = id_;
  record.time = time_;
  record.program = facts_.program;
  record.folder = facts_.folder;
  record.device = fmt::format("{} ({})", facts_.device.str(), device_name(facts_.device));
  record.config = config_json_;
  record.steps = summary.steps;
  record.outcome = outcome;
  for (const SummaryNumber& number : summary_numbers()) {
    const std::optional<double> value = number.value(summary);
    if (number.column.empty() || !value) continue;
    const std::string_view set = perplexity_set(number.name);
    (set.empty() ? record.numbers : record.perplexities).emplace_back(set.empty() ? number.name : set, *value);
  }
  try {
    append_run(record);
  } catch (const Error& error) {
    fmt::print(stderr, "warning: {}\n", error.what());
  }
}

void RunRecords::finish(const RunFolder& folder, const RunSummary& summary, const std::string& sample,
                        const std::string& profile_svg, bool prints) const {
  folder.write(kSummaryFile, json_text(summary) + "\n");
  RunReport report;
  report.title = facts_.program.substr(0, facts_.program.find(' ')) + ", " + facts_.preset;
  report.note = facts_.corpus;
  report.summary = report_numbers(summary);
  report.curves = curves_of(read_metrics(folder.path()));
  report.config_json = config_json_;
  report.environment = environment_of(facts_.device);
  report.profile_svg = profile_svg;
  report.sample = sample;
  write_report(folder.path(), report);
  if (!report.curves.empty()) {
    const RunReport::Curves& first = report.curves.front();
    folder.write("loss.svg", svg_plot(first.series, first.options));
    if (prints)
      fmt::print("{}\n", terminal_plot(first.series, {.title = "loss", .height = 14, .charset = terminal_charset()}));
  }
  if (!prints) return;
  const CheckpointFiles files = find_checkpoints(folder.checkpoints());
  fmt::print("report: {}/report.html (open it in a browser)\nweights: {}\n", printable(folder.path().string()),
             printable((files.best.empty() ? files.latest : files.best).string()));
}

}  // namespace etna::training
