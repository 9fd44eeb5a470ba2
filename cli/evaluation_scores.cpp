#include "evaluation_scores.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <etna/train/progress.h>

namespace etna::cli {
namespace {

constexpr const char* kAll = "all";

MeanScore mean_of(const std::vector<double>& values) {
  const auto count = static_cast<double>(values.size());
  double sum = 0, squares = 0;
  for (const double value : values) sum += value;
  const double mean = sum / count;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return {mean, values.size() < 2 ? 0 : std::sqrt(squares / (count - 1) / count)};
}

/// Of a ratio of sums, linearized: nats and tokens of one row vary together.
MeanScore perplexity_of(const std::vector<const RowScore*>& rows) {
  double nats = 0, tokens = 0, squares = 0;
  for (const RowScore* row : rows) {
    nats += row->plain;
    tokens += static_cast<double>(row->tokens);
  }
  const double mean = nats / tokens, perplexity = std::exp(mean), count = static_cast<double>(rows.size());
  for (const RowScore* row : rows) {
    const double off = row->plain - mean * static_cast<double>(row->tokens);
    squares += off * off;
  }
  const double error = rows.size() < 2 ? 0 : std::sqrt(squares * count / (count - 1)) / tokens;
  return {perplexity, perplexity * error};
}

ScoreLine mean_line(const std::string& name, const std::vector<std::vector<RowScore>>& columns,
                    double RowScore::*member) {
  ScoreLine line{name, columns[0].size(), {}};
  for (const std::vector<RowScore>& rows : columns) {
    std::vector<double> values;
    for (const RowScore& row : rows) values.push_back(row.*member);
    line.columns.push_back(mean_of(values));
  }
  return line;
}

std::vector<ScoreLine> group_lines(const std::vector<TaskItem>& items,
                                   const std::vector<std::vector<RowScore>>& columns) {
  std::map<std::string, std::vector<std::size_t>> groups;
  std::vector<std::size_t> all;
  for (std::size_t i = 0; i < columns[0].size(); ++i) {
    all.push_back(i);
    if (!items[i].group.empty()) groups[items[i].group].push_back(i);
  }
  std::vector<ScoreLine> lines;
  const auto add = [&](const std::string& name, const std::vector<std::size_t>& members) {
    ScoreLine line{"perplexity, " + name, members.size(), {}};
    for (const std::vector<RowScore>& rows : columns) {
      std::vector<const RowScore*> own;
      for (const std::size_t i : members) own.push_back(&rows[i]);
      line.columns.push_back(perplexity_of(own));
    }
    lines.push_back(std::move(line));
  };
  for (const auto& [name, members] : groups) add(name, members);
  add(kAll, all);
  return lines;
}

}  // namespace

std::optional<RowScore> RowScore::read(const nlohmann::json& json) {
  if (!json.is_object()) return std::nullopt;
  for (const char* name : {"plain", "by_length", "tokens"})
    if (!json.contains(name) || !json.at(name).is_number()) return std::nullopt;
  return RowScore{json.at("plain").get<double>(), json.at("by_length").get<double>(),
                  json.at("tokens").get<std::int64_t>()};
}

std::vector<ScoreLine> score_lines(TaskKind kind, const std::vector<TaskItem>& items,
                                   const std::vector<std::vector<RowScore>>& columns) {
  if (columns.empty() || columns[0].empty()) return {};
  if (kind == TaskKind::perplexity) return group_lines(items, columns);
  if (kind == TaskKind::answer) return {mean_line("exact match", columns, &RowScore::plain)};
  return {mean_line("accuracy", columns, &RowScore::plain),
          mean_line("accuracy, by length", columns, &RowScore::by_length)};
}

std::string score_table(const std::vector<ScoreLine>& lines, const std::vector<std::string>& names) {
  std::size_t width = 0;
  for (const ScoreLine& line : lines) width = std::max(width, training::printable(line.name).size());
  std::string text = fmt::format("{:{}}  {:>7}", "", width, "rows");
  for (const std::string& name : names) text += fmt::format("  {:>19}", name);
  text += "\n";
  for (const ScoreLine& line : lines) {
    text += fmt::format("{:{}}  {:>7}", training::printable(line.name), width,
                        training::with_commas(static_cast<std::int64_t>(line.rows)));
    for (const MeanScore& score : line.columns)
      text += fmt::format("  {:>19}", fmt::format("{:.4f} ± {:.4f}", score.mean, score.error));
    text += "\n";
  }
  return text;
}

nlohmann::json score_json(const std::vector<ScoreLine>& lines, const std::vector<std::string>& names) {
  nlohmann::json all = nlohmann::json::array();
  for (const ScoreLine& line : lines) {
    nlohmann::json own = {{"name", line.name}, {"rows", line.rows}};
    for (std::size_t i = 0; i < names.size(); ++i)
      own[names[i]] = {{"mean", line.columns[i].mean}, {"error", line.columns[i].error}};
    all.push_back(own);
  }
  return all;
}

}  // namespace etna::cli
