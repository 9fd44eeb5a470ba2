#include "runs.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <iterator>
#include <numeric>
#include <optional>
#include <set>
#include <span>

#include <fmt/format.h>

#include <etna/device/error.h>
#include <etna/device/internal/os/folders.h>
#include <etna/train/internal/summary_numbers.h>
#include <etna/train/progress.h>

#include "arguments.h"
#include "commands.h"
#include "output.h"

namespace etna::cli {
namespace {

using Json = nlohmann::ordered_json;
using training::RunRecord;

/// Wrong usage that only the list can tell.
struct UsageError : Error {
  using Error::Error;
};

constexpr const char* kFacts[] = {"id", "time", "folder", "program", "device", "steps", "outcome"};

void flatten(const std::string& name, const Json& value, std::vector<std::pair<std::string, Json>>& flat) {
  if (!value.is_object() || value.empty()) {
    flat.emplace_back(name, value);
    return;
  }
  for (const auto& item : value.items())
    flatten(name.empty() ? item.key() : name + "." + item.key(), item.value(), flat);
}

/// Numbers first by size, then text, then what is missing.
bool comes_before(const Json& a, const Json& b) {
  const auto rank = [](const Json& value) { return value.is_number() ? 0 : value.is_null() ? 2 : 1; };
  if (rank(a) != rank(b)) return rank(a) < rank(b);
  if (rank(a) == 0) return a.get<double>() < b.get<double>();
  return rank(a) == 1 && shown(a) < shown(b);
}

bool matches(const RunRecord& run, const std::string& name, const std::string& wanted) {
  const Json value = value_of(run, name);
  if (value.is_null()) return false;
  if (value.is_number()) {
    const Json number = Json::parse(wanted, nullptr, false);
    return number.is_number() && number.get<double>() == value.get<double>();
  }
  return shown(value).find(wanted) != std::string::npos;
}

/// The runs to show, in order.
std::vector<const RunRecord*> runs_chosen(const training::RunList& list, const RunsOptions& options) {
  std::vector<const RunRecord*> all;
  for (auto run = list.runs.rbegin(); run != list.runs.rend(); ++run) all.push_back(&*run);
  for (const std::string& filter : options.filters) {
    const std::size_t equals = filter.find('=');
    if (equals == std::string::npos || equals == 0)
      throw UsageError(fmt::format("--filter is '{}'; wanted NAME=VALUE, such as --filter device=vulkan",
                                   training::shortened(filter, 60)));
    const std::string name = filter.substr(0, equals), value = filter.substr(equals + 1);
    std::erase_if(all, [&](const RunRecord* run) { return !matches(*run, name, value); });
  }
  if (!options.sort.empty()) {
    const bool known = std::any_of(list.runs.begin(), list.runs.end(),
                                   [&](const RunRecord& run) { return !value_of(run, options.sort).is_null(); });
    if (!known && !list.runs.empty()) {
      std::set<std::string> names(std::begin(kFacts), std::end(kFacts));
      std::vector<const RunRecord*> runs;
      for (const RunRecord& run : list.runs) runs.push_back(&run);
      for (const std::string& name : numbers_of(runs)) names.insert(name);
      std::string known_names;
      for (const std::string& name : names) known_names += training::shortened(name, 40) + ", ";
      throw UsageError(
          fmt::format("--sort {}: no run has this field; known are {}and the names in the runs' configurations",
                      training::shortened(options.sort, 60), known_names));
    }
    std::vector<std::pair<Json, const RunRecord*>> keyed;
    for (const RunRecord* run : all) keyed.emplace_back(value_of(*run, options.sort), run);
    std::stable_sort(keyed.begin(), keyed.end(), [&](const auto& a, const auto& b) {
      if (a.first.is_null() || b.first.is_null()) return !a.first.is_null() && b.first.is_null();
      return options.reverse ? comes_before(b.first, a.first) : comes_before(a.first, b.first);
    });
    std::transform(keyed.begin(), keyed.end(), all.begin(), [](const auto& one) { return one.second; });
  } else if (options.reverse) {
    std::reverse(all.begin(), all.end());
  }
  if (options.last > 0 && all.size() > options.last) {
    // The newest of them, whichever end they are at.
    const bool oldest_first = options.sort.empty() && options.reverse;
    if (oldest_first) all.erase(all.begin(), all.end() - static_cast<std::ptrdiff_t>(options.last));
    all.resize(options.last);
  }
  return all;
}

struct Column {
  std::string title;
  std::function<std::string(const RunRecord&)> text;
  bool right = false;
  int rank = 0;  ///< the highest goes first where the terminal is narrow
  std::size_t width = 0;
};

std::vector<Column> columns_for(const std::vector<const RunRecord*>& runs) {
  const auto value = [](const char* name) {
    return [name](const RunRecord& run) { return shown(value_of(run, name), Digits::four); };
  };
  std::vector<Column> columns = {{"run", value("id")},
                                 {"started (UTC)",
                                  [](const RunRecord& run) {
                                    std::string time = run.time.substr(0, 16);
                                    if (time.size() == 16 && time[10] == 'T') time[10] = ' ';
                                    return time;
                                  },
                                  false, 3},
                                 {"program", value("program"), false, 7},
                                 {"device", value("device"), false, 5},
                                 {"steps", value("steps"), true, 4}};
  std::size_t sets = 0;
  for (const std::string& name : numbers_of(runs)) {
    const std::string_view set = training::perplexity_set(name);
    if (!set.empty() && ++sets > 3) continue;
    const std::span<const training::SummaryNumber> known = training::summary_numbers();
    const auto row =
        std::find_if(known.begin(), known.end(), [&](const training::SummaryNumber& n) { return n.name == name; });
    const std::string title(row != known.end() ? row->column : set.empty() ? name : fmt::format("ppl {}", set));
    columns.push_back({title, [name](const RunRecord& run) { return shown(value_of(run, name), Digits::four); }, true,
                       row != known.end() ? row->rank : 2});
  }
  columns.push_back({"outcome", value("outcome"), false, 1});
  columns.push_back({"folder", value("folder")});
  return columns;
}

std::string table(const std::vector<const RunRecord*>& runs) {
  const Terminal out = terminal();
  const training::Charset charset = training::terminal_charset();
  // Files and pipes get whole names.
  const std::size_t width = out.is_terminal || std::getenv("COLUMNS") ? std::max<std::size_t>(out.width, 40) : 10'000;
  std::vector<Column> columns = columns_for(runs);
  std::erase_if(columns, [&](const Column& column) {
    return std::all_of(runs.begin(), runs.end(), [&](const RunRecord* run) {
      const std::string text = column.text(*run);
      return column.rank > 0 && (text.empty() || text == "-");
    });
  });
  for (Column& column : columns) {
    column.width = training::columns(training::printable(column.title, charset));
    for (const RunRecord* run : runs)
      column.width = std::max(column.width, training::columns(training::printable(column.text(*run), charset)));
    const bool folder = &column == &columns.back();
    if (!folder && width < 10'000) column.width = std::min<std::size_t>(column.width, 28);
  }
  const auto total = [&] {
    return std::accumulate(columns.begin(), columns.end(), 2 * (columns.size() - 1),
                           [](std::size_t sum, const Column& column) { return sum + column.width; });
  };
  constexpr std::size_t kLeastFolder = 14;
  const auto shrink_folder = [&] {
    Column& folder = columns.back();
    const std::size_t over = total() > width ? total() - width : 0;
    if (over > 0 && folder.width > kLeastFolder) folder.width -= std::min(over, folder.width - kLeastFolder);
  };
  for (shrink_folder(); total() > width; shrink_folder()) {
    const auto first = std::max_element(columns.begin(), columns.end(),
                                        [](const Column& a, const Column& b) { return a.rank < b.rank; });
    if (first->rank == 0) break;
    columns.erase(first);
    // What a column leaves behind goes to the folder.
    const std::size_t now = total();
    if (now < width) columns.back().width += width - now;
  }
  std::string text;
  const auto add_row = [&](const std::function<std::string(const Column&)>& cell) {
    std::string line;
    for (const Column& column : columns) {
      const training::Cut cut = &column == &columns.back() ? training::Cut::begin : training::Cut::end;
      line += (line.empty() ? "" : "  ") + training::padded(cell(column), column.width, column.right, cut, charset);
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  };
  add_row([](const Column& column) { return column.title; });
  for (const RunRecord* run : runs) add_row([run](const Column& column) { return column.text(*run); });
  return text;
}

int list_runs(const training::RunList& list, const RunsOptions& options) {
  const std::vector<const RunRecord*> runs = runs_chosen(list, options);
  std::string text;
  if (options.json) {
    text = "[";
    for (std::size_t i = 0; i < runs.size(); ++i) text += (i == 0 ? "\n" : ",\n") + training::json_text(*runs[i]);
    text += runs.empty() ? "]\n" : "\n]\n";
  } else if (runs.empty()) {
    text = list.runs.empty() ? fmt::format("no runs yet; training programs add theirs to {}\n",
                                           training::printable(training::run_list_file().string()))
                             : fmt::format("none of the {} runs matches\n", list.runs.size());
  } else {
    text = table(runs);
  }
  print_all(text);
  return 0;
}

}  // namespace

Json value_of(const RunRecord& run, const std::string& name) {
  if (name == "id") return run.id;
  if (name == "time") return run.time;
  if (name == "folder") return run.folder.string();
  if (name == "program") return run.program;
  if (name == "device") return run.device;
  if (name == "steps") return run.steps;
  if (name == "outcome") return training::name(run.outcome);
  if (const std::optional<double> number = run.number(name == "loss" ? "final_loss" : name)) return *number;
  for (const auto& [key, value] : flat_config(run)) {
    if (key == name) return value;
  }
  return nullptr;
}

std::vector<std::string> numbers_of(const std::vector<const RunRecord*>& runs) {
  std::vector<std::string> names;
  for (const training::SummaryNumber& number : training::summary_numbers()) {
    const std::string name(number.name);
    const bool there = std::any_of(runs.begin(), runs.end(), [&](const RunRecord* run) { return run->number(name); });
    if (!number.column.empty() && (there || training::perplexity_set(name).empty())) names.push_back(name);
  }
  const auto add = [&](const std::string& name) {
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  };
  for (const RunRecord* run : runs) {
    for (const auto& [set, value] : run->perplexities) add(set + "_perplexity");
    for (const auto& [name, value] : run->numbers) add(name);
  }
  return names;
}

std::vector<std::pair<std::string, Json>> flat_config(const RunRecord& run) {
  std::vector<std::pair<std::string, Json>> flat;
  const Json config = Json::parse(run.config, nullptr, false);
  if (config.is_object() && !config.empty()) flatten("", config, flat);
  return flat;
}

std::string shown(const Json& value, Digits digits) {
  if (value.is_null()) return "-";
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_integer() && !value.is_number_unsigned()) return training::with_commas(value.get<std::int64_t>());
  if (value.is_number_unsigned() && value.get<std::uint64_t>() >> 63 == 0)
    return training::with_commas(static_cast<std::int64_t>(value.get<std::uint64_t>()));
  if (value.is_number_float()) {
    const double number = value.get<double>();
    if (std::abs(number) >= 999.95 && std::abs(number) < 1e15) return training::with_commas(std::llround(number));
    return digits == Digits::four && number != 0 ? fmt::format("{:#.4g}", number) : fmt::format("{:.4g}", number);
  }
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

namespace {

int run_runs(const CLI::App& command, const RunsOptions& options) try {
  const std::filesystem::path file = training::run_list_file();
  if (file.empty())
    throw Error(fmt::format("runs: none of ETNA_RUNS, XDG_STATE_HOME and {} is set, so there is no list of runs",
                            os::kUserFolderVariable));
  const training::RunList list = training::read_runs(file);
  if (list.damaged > 0) {
    fmt::print(stderr, "etna: {} damaged line{} of {} left out\n", list.damaged, list.damaged == 1 ? "" : "s",
               training::printable(file.string()));
  }
  try {
    if (command.got_subcommand("compare")) return compare_runs(list, options);
    if (command.got_subcommand("plot")) return plot_runs(list, options);
    return list_runs(list, options);
  } catch (const UsageError& error) {
    fmt::print(stderr, "etna: {}\n", error.what());
    return 2;
  }
} catch (const FormatError& error) {
  fmt::print(stderr, "etna: {}\n", training::printable(error.what()));  // it may quote the file
  return 4;
}

}  // namespace

Command add_runs(CLI::App& app) {
  const auto options = std::make_shared<RunsOptions>();
  CLI::App* list = app.add_subcommand("runs", "List the training runs of this user, newest first");
  list->add_option("--last", options->last, "only so many, of the newest (with --sort: the first of that order)")
      ->check(number_in(training::integers(1)));
  list->add_option("--sort", options->sort,
                   "by a result (loss, tokens_per_second, valid_perplexity ...) or config value");
  list->add_flag("--reverse", options->reverse, "the other way round");
  list->add_option("--filter", options->filters, "NAME=VALUE: equal numbers, or texts that contain VALUE; repeatable")
      ->take_all()
      ->allow_extra_args(false);
  list->add_flag("--json", options->json, "print JSON");
  const char* names = "ids (a beginning that only one has will do) or run folders";
  CLI::App* compare = list->add_subcommand("compare", "Show what differs between runs, and their results");
  compare->add_option("runs", options->names, names)->required()->expected(2, 100);
  compare->add_flag("--json", options->json, "print JSON");
  CLI::App* plot = list->add_subcommand("plot", "Plot the loss curves of runs");
  plot->add_option("runs", options->names, names)->required()->expected(1, 100);
  plot->add_option("--metric", options->metrics, "what to plot (default: the losses); repeatable")
      ->take_all()
      ->allow_extra_args(false);
  add_output(*plot, "--svg", options->svg, "write a picture to this file", options->force);
  plot->add_flag("--log", options->log, "with a logarithmic axis");
  plot->add_flag("--json", options->json, "print the points as JSON");
  list->require_subcommand(0, 1);
  return {list, [list, options] { return run_runs(*list, *options); }};
}

}  // namespace etna::cli
