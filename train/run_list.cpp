#include <etna/train/runs.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <map>
#include <random>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <etna/device/error.h>
#include <etna/device/internal/os/folders.h>
#include <etna/device/internal/os/process.h>
#include <etna/train/internal/append_file.h>
#include <etna/train/internal/json_depth.h>
#include <etna/train/internal/read_bytes.h>
#include <etna/train/internal/summary_numbers.h>
#include <etna/train/progress.h>

namespace etna::training {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr Outcome kOutcomes[] = {Outcome::finished, Outcome::interrupted, Outcome::failed};

/// What a line holds besides numbers.
constexpr std::string_view kFields[] = {"id",    "time",         "folder",  "program", "device",
                                        "steps", "perplexities", "outcome", "config"};
/// Numbers that every line has, null where they are not known.
constexpr const char* kUsual[] = {"epoch_seconds", "tokens_per_second", "final_loss"};

bool is_field(std::string_view name) {
  return std::find(std::begin(kFields), std::end(kFields), name) != std::end(kFields);
}

Json number(const std::optional<double>& value) {
  return value && std::isfinite(*value) ? Json(*value) : Json(nullptr);
}

std::string text_of(const Json& object, const char* key) {
  const auto at = object.find(key);
  return at == object.end() ? "" : at->get<std::string>();
}

/// @throws Json::exception for fields of other types
RunRecord parse(const Json& line) {
  RunRecord run;
  run.id = line.at("id").get<std::string>();
  run.time = text_of(line, "time");
  run.folder = text_of(line, "folder");
  run.program = text_of(line, "program");
  run.device = text_of(line, "device");
  if (const auto config = line.find("config"); config != line.end() && config->is_object()) run.config = config->dump();
  if (const auto steps = line.find("steps"); steps != line.end()) run.steps = steps->get<std::int64_t>();
  for (const auto& item : line.items()) {
    const bool usual = std::find(std::begin(kUsual), std::end(kUsual), item.key()) != std::end(kUsual);
    if (is_field(item.key()) || item.value().is_null() || (!usual && !item.value().is_number())) continue;
    run.numbers.emplace_back(item.key(), item.value().get<double>());  // throws for other types
  }
  if (const auto all = line.find("perplexities"); all != line.end()) {
    for (const auto& item : all->items()) {
      if (item.value().is_number()) run.perplexities.emplace_back(item.key(), item.value().get<double>());
    }
  }
  const std::string outcome = text_of(line, "outcome");
  const auto* at =
      std::find_if(std::begin(kOutcomes), std::end(kOutcomes), [&](Outcome known) { return outcome == name(known); });
  run.outcome = at == std::end(kOutcomes) ? Outcome::failed : *at;
  return run;
}

fs::path same_folder(const fs::path& folder) {
  std::error_code error;
  const fs::path canonical = fs::weakly_canonical(folder, error);
  fs::path plain = error ? folder.lexically_normal() : canonical;
  return plain.has_filename() ? plain : plain.parent_path();
}

}  // namespace

std::optional<double> RunRecord::number(std::string_view name) const {
  for (const auto& [known, value] : numbers) {
    if (known == name) return value;
  }
  for (const auto& [set, value] : perplexities) {
    if (perplexity_set(name) == set) return value;
  }
  return std::nullopt;
}

const char* name(Outcome outcome) {
  switch (outcome) {
    case Outcome::finished:
      return "finished";
    case Outcome::interrupted:
      return "interrupted";
    case Outcome::failed:
      break;
  }
  return "failed";
}

std::string new_run_id() {
  std::random_device device;
  const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
  // The clock and the process are for systems whose random device always gives the same.
  std::seed_seq seed{device(), device(), static_cast<unsigned>(now), static_cast<unsigned>(os::process_id())};
  std::mt19937 generator(seed);
  return fmt::format("{:08x}", static_cast<std::uint32_t>(generator()));
}

std::string utc_time(std::optional<std::int64_t> seconds) {
  const std::time_t time = seconds ? static_cast<std::time_t>(*seconds) : std::time(nullptr);
  std::tm parts{};
  if (::gmtime_r(&time, &parts) == nullptr) return "";
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z", parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday,
                     parts.tm_hour, parts.tm_min, parts.tm_sec);
}

FilePath run_list_file() {
  constexpr const char* kName = "runs.jsonl";
  if (const char* own = std::getenv("ETNA_RUNS"); own != nullptr && *own != '\0') return FilePath(own) / kName;
  const fs::path all = os::user_folder(os::UserFolder::state);
  return all.empty() ? all : all / "etna" / kName;
}

std::string json_text(const RunRecord& run) {
  const Json config = json_too_deep(run.config) ? Json() : Json::parse(run.config, nullptr, false);
  if (!config.is_object())
    throw Error(
        fmt::format("run '{}': its config is no JSON object: {}", shortened(run.id, 40), shortened(run.config, 60)));
  Json line = {{"id", run.id},           {"time", run.time},     {"folder", run.folder.string()},
               {"program", run.program}, {"device", run.device}, {"steps", run.steps}};
  for (const char* usual : kUsual) line[usual] = nullptr;
  for (const auto& [name, value] : run.numbers) {
    if (is_field(name)) throw Error(fmt::format("run '{}': '{}' is no name of a number", shortened(run.id, 40), name));
    line[name] = number(value);
  }
  line["perplexities"] = Json::object();
  for (const auto& [set, perplexity] : run.perplexities) line["perplexities"][set] = number(perplexity);
  line["outcome"] = name(run.outcome);
  line["config"] = config;
  return line.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void append_run(const RunRecord& run, const FilePath& file) {
  if (file.empty()) return;
  std::error_code error;
  RunRecord whole = run;
  if (!run.folder.empty()) {
    const fs::path folder = fs::absolute(run.folder, error).lexically_normal();
    if (!error) whole.folder = folder;
  }
  const std::string line = json_text(whole);
  if (const fs::path parent = fs::path(file).parent_path(); !parent.empty()) {
    fs::create_directories(parent, error);
    if (error)
      throw FormatError(fmt::format("{} cannot be made: {}; ETNA_RUNS names another folder for the list of runs",
                                    parent.string(), error.message()));
  }
  AppendFile(file).append_line_locked(line);
}

RunList read_runs(const FilePath& file) {
  RunList list;
  std::error_code error;
  if (file.empty() || fs::status(file, error).type() == fs::file_type::not_found) return list;
  const std::string all = read_bytes(file);
  std::map<std::string, std::size_t> last;  // the place of each id in the list
  std::vector<RunRecord> runs;
  for (std::string_view rest = all; !rest.empty();) {
    const std::size_t end = rest.find('\n');
    const std::string_view text = rest.substr(0, end);
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    if (text.empty()) continue;
    try {
      if (json_too_deep(text)) throw Error("too deep");
      RunRecord run = parse(Json::parse(text));
      if (run.id.empty()) throw Error("no id");
      last[run.id] = runs.size();
      runs.push_back(std::move(run));
    } catch (const std::exception&) {
      ++list.damaged;
    }
  }
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (last[runs[i].id] == i) list.runs.push_back(std::move(runs[i]));
  }
  return list;
}

const RunRecord& find_run(const RunList& list, const std::string& name) {
  std::vector<const RunRecord*> matches;
  for (const RunRecord& run : list.runs) {
    if (run.id == name) return run;
    if (!name.empty() && run.id.starts_with(name)) matches.push_back(&run);
  }
  if (matches.size() == 1) return *matches[0];
  const fs::path folder = same_folder(name);
  for (auto run = list.runs.rbegin(); run != list.runs.rend(); ++run) {
    if (!name.empty() && !run->folder.empty() && same_folder(run->folder) == folder) return *run;
  }
  const std::string shown = shortened(name, 60);
  if (matches.empty())
    throw FormatError(
        fmt::format("there is no run '{}' among the {} in the list, neither by the beginning of its id nor "
                    "by its folder",
                    shown, list.runs.size()));
  std::string ids;
  for (std::size_t i = 0; i < matches.size() && i < 8; ++i) ids += (i == 0 ? "" : ", ") + shortened(matches[i]->id, 40);
  throw FormatError(
      fmt::format("'{}' is the beginning of {} ids: {}{}", shown, matches.size(), ids, matches.size() > 8 ? " …" : ""));
}

}  // namespace etna::training
