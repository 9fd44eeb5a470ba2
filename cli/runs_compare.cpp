#include <algorithm>
#include <map>

#include <fmt/format.h>

#include <etna/train/progress.h>

#include "output.h"
#include "runs.h"

namespace etna::cli {
namespace {

using Json = nlohmann::ordered_json;
using training::RunRecord;

/// A name, and what each run has for it.
struct Row {
  std::string name;
  std::vector<Json> values;

  bool differs() const {
    return std::any_of(values.begin(), values.end(), [&](const Json& value) { return value != values[0]; });
  }
};

std::vector<Row> config_rows(const std::vector<const RunRecord*>& runs) {
  std::vector<Row> rows;
  std::map<std::string, std::size_t> places;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    for (auto& [name, value] : flat_config(*runs[i])) {
      const auto place = places.emplace(name, rows.size()).first;
      if (place->second == rows.size()) rows.push_back({name, std::vector<Json>(runs.size())});
      rows[place->second].values[i] = std::move(value);
    }
  }
  std::erase_if(rows, [](const Row& row) { return !row.differs(); });
  return rows;
}

/// What the runs gave. Where and with what they ran is shown only if it differs.
std::vector<Row> result_rows(const std::vector<const RunRecord*>& runs) {
  std::vector<std::string> names = {"folder", "program", "device", "outcome", "steps"};
  const std::size_t always = 4;
  for (std::string& name : numbers_of(runs)) names.push_back(std::move(name));
  std::vector<Row> rows;
  for (std::size_t i = 0; i < names.size(); ++i) {
    Row row{names[i], {}};
    for (const RunRecord* run : runs) row.values.push_back(value_of(*run, names[i]));
    const bool known =
        std::any_of(row.values.begin(), row.values.end(), [](const Json& value) { return !value.is_null(); });
    if (known && (i >= always || row.differs())) rows.push_back(std::move(row));
  }
  return rows;
}

/// One line of cells for some of the runs.
std::string line(const std::string& name, std::size_t name_width, const std::vector<std::string>& cells,
                 std::size_t cell_width, training::Charset charset) {
  std::string text = training::padded(name, name_width, false, training::Cut::begin, charset);
  for (const std::string& cell : cells)
    text += "  " + training::padded(cell, cell_width, true, training::Cut::begin, charset);
  return text.substr(0, text.find_last_not_of(' ') + 1) + "\n";
}

std::string tables(const std::vector<const RunRecord*>& runs) {
  const training::Charset charset = training::terminal_charset();
  const std::size_t width = std::max<std::size_t>(terminal().width, 40);
  const std::vector<Row> config = config_rows(runs), results = result_rows(runs);
  const auto digits_of = [&](const std::vector<Row>* rows) { return rows == &results ? Digits::four : Digits::needed; };
  std::size_t name_width = 7, cell_width = 8;  // of an id
  for (const std::vector<Row>* rows : {&config, &results}) {
    for (const Row& row : *rows) {
      name_width = std::max(name_width, 2 + training::columns(training::printable(row.name, charset)));
      for (const Json& value : row.values)
        cell_width =
            std::max(cell_width, training::columns(training::printable(shown(value, digits_of(rows)), charset)));
    }
  }
  name_width = std::min(name_width, width / 3);
  // Wide cells are cut before runs go into a table of their own, below the first.
  const std::size_t fair = (width - name_width) / runs.size();
  cell_width = std::clamp<std::size_t>(fair > 2 ? fair - 2 : 0, 12, std::max<std::size_t>(cell_width, 12));
  cell_width = std::min(cell_width, width - name_width - 2);
  const std::size_t a_table = std::max<std::size_t>(1, (width - name_width) / (cell_width + 2));
  std::string text;
  for (std::size_t begin = 0; begin < runs.size(); begin += a_table) {
    const std::size_t end = std::min(begin + a_table, runs.size());
    std::vector<std::string> ids;
    for (std::size_t i = begin; i < end; ++i) ids.push_back(runs[i]->id);
    text += (begin == 0 ? "" : "\n") + line("run", name_width, ids, cell_width, charset);
    const auto add = [&](const char* title, const std::vector<Row>& rows) {
      text += fmt::format("{}\n", title);
      for (const Row& row : rows) {
        std::vector<std::string> cells;
        for (std::size_t i = begin; i < end; ++i) cells.push_back(shown(row.values[i], digits_of(&rows)));
        text += line("  " + row.name, name_width, cells, cell_width, charset);
      }
    };
    add(config.empty() ? "configuration: the same" : "configuration, where it differs", config);
    add("results", results);
  }
  return text;
}

}  // namespace

int compare_runs(const training::RunList& list, const RunsOptions& options) {
  std::vector<const RunRecord*> runs;
  for (const std::string& name : options.names) runs.push_back(&training::find_run(list, name));
  if (!options.json) {
    print_all(tables(runs));
    return 0;
  }
  Json out = {{"runs", Json::array()}, {"config_differs", Json::object()}};
  for (const RunRecord* run : runs) out["runs"].push_back(Json::parse(training::json_text(*run)));
  for (const Row& row : config_rows(runs)) out["config_differs"][row.name] = row.values;
  print_all(out.dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
  return 0;
}

}  // namespace etna::cli
