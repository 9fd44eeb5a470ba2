#include <etna/train/metrics.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <etna/data/csv.h>
#include <etna/device/error.h>
#include <etna/train/internal/read_bytes.h>
#include <etna/train/progress.h>

namespace etna::training {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

class MetricsReader {
 public:
  explicit MetricsReader(const FilePath& file) : file_(file), text_(read_bytes(file)) {}

  Metrics jsonl() {
    std::string_view rest = text_;
    for (std::size_t line = 1; !rest.empty(); ++line) {
      const std::size_t end = rest.find('\n');
      const std::string_view text = rest.substr(0, end);
      const Json row = Json::parse(text, nullptr, false);
      if (end == std::string_view::npos) {
        // Nothing but a line break is missing where the braces are closed.
        if (row.is_object()) {
          add(row, line);
        } else {
          metrics_.cut_ = true;
        }
        break;
      }
      add(row, line);
      rest.remove_prefix(end + 1);
    }
    return std::move(metrics_);
  }

  Metrics csv() {
    const std::size_t end = text_.rfind('\n') + 1;  // 0 without a line break
    metrics_.cut_ = end != text_.size();
    text_.resize(end);
    const data::Csv table(text_, {}, file_.string());
    if (table.columns().empty()) return std::move(metrics_);
    const std::int64_t step = table.column("step");
    const auto count = static_cast<std::int64_t>(table.columns().size());
    std::vector<std::size_t> names;
    for (const std::string& name : table.columns()) names.push_back(special(name) ? 0 : name_of(name));
    for (std::int64_t row = 0; row < table.rows(); ++row) {
      Metrics::Row made{0, std::numeric_limits<double>::quiet_NaN(), {}};
      for (std::int64_t column = 0; column < count; ++column) {
        const std::string& field = table.field(row, column);
        const std::string& name = table.columns()[static_cast<std::size_t>(column)];
        if (column == step) {
          const auto [rest, error] = std::from_chars(field.data(), field.data() + field.size(), made.step);
          if (error != std::errc() || rest != field.data() + field.size() || made.step < 0)
            throw refuse_row(row, fmt::format("step is '{}', not a count", shortened(field, 40)));
        } else if (!field.empty()) {
          double value = 0;
          const auto [rest, error] = std::from_chars(field.data(), field.data() + field.size(), value);
          if (error != std::errc() || rest != field.data() + field.size())
            throw refuse_row(row, fmt::format("{} is '{}', no number", shortened(name, 40), shortened(field, 40)));
          if (name == "seconds") {
            made.seconds = value;
          } else {
            made.values.emplace_back(names[static_cast<std::size_t>(column)], value);
          }
        }
      }
      metrics_.rows_.push_back(std::move(made));
    }
    return std::move(metrics_);
  }

 private:
  static bool special(const std::string& name) { return name == "step" || name == "seconds"; }

  FormatError refuse(std::size_t line, const std::string& what) const {
    return FormatError(fmt::format("{}: line {}: {}", file_.string(), line, what));
  }
  FormatError refuse_row(std::int64_t row, const std::string& what) const {
    return FormatError(fmt::format("{}: row {}: {}", file_.string(), row + 1, what));
  }

  std::size_t name_of(const std::string& name) {
    const auto [at, inserted] = index_.emplace(name, metrics_.names_.size());
    if (inserted) metrics_.names_.push_back(name);
    return at->second;
  }

  static std::optional<double> number(const Json& value) {
    if (value.is_number()) return value.get<double>();
    if (!value.is_string()) return std::nullopt;
    const std::string& word = value.get_ref<const std::string&>();
    if (word == "NaN") return std::numeric_limits<double>::quiet_NaN();
    if (word == "Infinity") return std::numeric_limits<double>::infinity();
    if (word == "-Infinity") return -std::numeric_limits<double>::infinity();
    return std::nullopt;
  }

  void add(const Json& row, std::size_t line) {
    if (!row.is_object()) throw refuse(line, "no JSON object");
    const auto step = row.find("step");
    const bool counts =
        step != row.end() && step->is_number_integer() &&
        (step->is_number_unsigned() ? step->get<std::uint64_t>() >> 63 == 0 : step->get<std::int64_t>() >= 0);
    if (!counts) throw refuse(line, "\"step\" is missing or no count");
    Metrics::Row made{step->get<std::int64_t>(), std::numeric_limits<double>::quiet_NaN(), {}};
    for (auto at = row.begin(); at != row.end(); ++at) {
      if (at.key() == "step" || at.value().is_null()) continue;
      const std::optional<double> value = number(at.value());
      if (!value)
        throw refuse(line, fmt::format("\"{}\" is neither a number nor \"NaN\", \"Infinity\" or \"-Infinity\"",
                                       shortened(at.key(), 40)));
      if (at.key() == "seconds") {
        made.seconds = *value;
      } else {
        made.values.emplace_back(name_of(at.key()), *value);
      }
    }
    metrics_.rows_.push_back(std::move(made));
  }

  const FilePath& file_;
  std::string text_;
  std::map<std::string, std::size_t> index_;
  Metrics metrics_;
};

bool Metrics::has(std::string_view name) const { return std::find(names_.begin(), names_.end(), name) != names_.end(); }

std::vector<MetricPoint> Metrics::points(std::string_view name) const {
  const auto index = static_cast<std::size_t>(std::find(names_.begin(), names_.end(), name) - names_.begin());
  std::vector<MetricPoint> points;
  for (const Row& row : rows_) {
    for (const auto& [column, value] : row.values) {
      if (column == index) points.push_back({row.step, value, row.seconds});
    }
  }
  return points;
}

Metrics read_metrics(const FilePath& folder) {
  const FilePath jsonl = folder / "metrics.jsonl", csv = folder / "metrics.csv";
  std::error_code ignored;
  if (fs::exists(jsonl, ignored)) return MetricsReader(jsonl).jsonl();
  if (fs::exists(csv, ignored)) return MetricsReader(csv).csv();
  throw FormatError(fmt::format("{} has no metrics (metrics.jsonl or metrics.csv); is it the folder of a training run?",
                                folder.string()));
}

}  // namespace etna::training
