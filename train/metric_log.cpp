#include <etna/train/metrics.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <limits>
#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <etna/data/text_file.h>
#include <etna/device/error.h>
#include <etna/device/internal/atomic_file.h>
#include <etna/train/internal/append_file.h>
#include <etna/train/internal/event_file.h>
#include <etna/train/progress.h>

namespace etna::training {
namespace {

namespace fs = std::filesystem;

constexpr const char* kJsonl = "metrics.jsonl";
constexpr const char* kCsv = "metrics.csv";
constexpr std::int64_t kLastStep = std::numeric_limits<std::int64_t>::max();

void check_name(const std::string& name) {
  const auto refuse = [&](const char* why) {
    return Error(fmt::format("MetricLog: the name '{}' {}", shortened(name, 60), why));
  };
  if (name.empty()) throw refuse("is empty");
  if (name == "step" || name == "seconds") throw refuse("is taken: every row has a step and seconds");
  if (data::find_invalid_utf8(name) != std::string_view::npos) throw refuse("is not UTF-8");
  if (std::any_of(name.begin(), name.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }))
    throw refuse("has control characters; leave them out");
}

/// Compares each name with the others: rows have few.
template <typename Names, typename NameOf>
void check_names(const Names& names, NameOf&& name_of) {
  for (auto at = names.begin(); at != names.end(); ++at) {
    check_name(name_of(*at));
    const bool twice =
        std::any_of(names.begin(), at, [&](const auto& earlier) { return name_of(earlier) == name_of(*at); });
    if (twice) throw Error(fmt::format("MetricLog: the name '{}' comes twice", shortened(name_of(*at), 60)));
  }
}

std::string csv_field(const std::string& name) {
  if (name.find_first_of(",\"") == std::string::npos) return name;
  std::string field = "\"";
  for (const char c : name) field += c == '"' ? "\"\"" : std::string(1, c);
  field += '"';
  return field;
}

std::string csv_head(const std::vector<std::string>& columns) {
  std::string line = "step,seconds";
  for (const std::string& name : columns) line += fmt::format(",{}", csv_field(name));
  return line + "\n";
}

/// The shortest text that reads back as the same number.
std::string csv_number(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return fmt::format("{}", value);
}

std::string json_number(double value) {
  if (std::isnan(value)) return "\"NaN\"";
  if (std::isinf(value)) return value > 0 ? "\"Infinity\"" : "\"-Infinity\"";
  return fmt::format("{}", value);
}

/// Milliseconds are as much as matters. Empty for NaN: rows of other programs have no time.
std::string seconds_text(double seconds) { return std::isnan(seconds) ? "" : fmt::format("{:.3f}", seconds); }

std::string csv_line(const std::vector<std::string>& columns, std::int64_t step, double seconds,
                     const MetricLog::Values& values) {
  std::string line = fmt::format("{},{}", step, seconds_text(seconds));
  for (const std::string& column : columns) {
    line += ',';
    const auto at =
        std::find_if(values.begin(), values.end(), [&](const auto& value) { return value.first == column; });
    if (at != values.end()) line += csv_number(at->second);
  }
  return line + "\n";
}

std::string json_line(std::int64_t step, double seconds, const MetricLog::Values& values) {
  std::string line = fmt::format("{{\"step\":{}", step);
  if (!std::isnan(seconds)) line += fmt::format(",\"seconds\":{:.3f}", seconds);
  for (const auto& [name, value] : values)
    line += fmt::format(",{}:{}", nlohmann::json(name).dump(), json_number(value));
  return line + "}\n";
}

void keep_as_old(const FilePath& file) {
  std::error_code error;
  if (!fs::is_regular_file(file, error)) return;
  const FilePath old = file.string() + ".old";
  fs::rename(file, old, error);
  if (error)
    throw FormatError(
        fmt::format("{} is there and cannot be renamed to {}: {}", file.string(), old.string(), error.message()));
}

/// Replaces both files by the rows up to `step`. The CSV file gets the columns of this run.
void remove_after(const FilePath& folder, const std::vector<std::string>& columns, std::int64_t step) {
  std::string jsonl, csv = csv_head(columns);
  std::error_code ignored;
  if (fs::exists(folder / kJsonl, ignored) || fs::exists(folder / kCsv, ignored)) {
    const Metrics metrics = read_metrics(folder);
    MetricLog::Values values;
    for (const Metrics::Row& row : metrics.rows()) {
      if (row.step > step) continue;
      values.clear();
      for (const auto& [column, value] : row.values) values.emplace_back(metrics.names()[column], value);
      jsonl += json_line(row.step, row.seconds, values);
      csv += csv_line(columns, row.step, row.seconds, values);
    }
  }
  io::AtomicFile jsonl_file(folder / kJsonl), csv_file(folder / kCsv);
  jsonl_file.write(jsonl);
  csv_file.write(csv);
  jsonl_file.finish();
  csv_file.finish();
}

}  // namespace

MetricLog::MetricLog(const FilePath& folder, std::vector<std::string> columns,
                     std::optional<std::int64_t> resume_at_step)
    : folder_(folder), columns_(std::move(columns)) {
  check_names(columns_, [](const std::string& name) -> const std::string& { return name; });
  if (resume_at_step && *resume_at_step < 0)
    throw Error(fmt::format("MetricLog: resume_at_step is {}, should be 0 or more", *resume_at_step));
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error) throw FormatError(fmt::format("{} cannot be made: {}", folder_.string(), error.message()));
  if (resume_at_step) {
    remove_after(folder_, columns_, *resume_at_step);
  } else {
    keep_as_old(folder_ / kJsonl);
    keep_as_old(folder_ / kCsv);
  }
  jsonl_ = std::make_unique<AppendFile>(folder_ / kJsonl);
  csv_ = std::make_unique<AppendFile>(folder_ / kCsv);
  if (!resume_at_step) csv_->append(csv_head(columns_));
  events_ =
      std::make_unique<EventFileWriter>(folder_, resume_at_step ? std::min(*resume_at_step, kLastStep - 1) + 1 : 0);
}

MetricLog::~MetricLog() = default;

void MetricLog::log(std::int64_t step, const Values& values, double seconds) {
  if (step < 0) throw Error(fmt::format("MetricLog: step is {}, should be 0 or more", step));
  if (!std::isfinite(seconds)) throw Error(fmt::format("MetricLog: seconds are {}, should be finite", seconds));
  check_names(values, [](const auto& value) -> const std::string& { return value.first; });
  try {
    jsonl_->append(json_line(step, seconds, values));
    csv_->append(csv_line(columns_, step, seconds, values));
    if (!values.empty()) {
      const auto now = std::chrono::system_clock::now().time_since_epoch();
      events_->scalars(step, values, std::chrono::duration<double>(now).count());
    }
  } catch (const FormatError& error) {
    throw FormatError(fmt::format("{}; the row of step {} is lost", error.what(), step));
  }
}

}  // namespace etna::training
