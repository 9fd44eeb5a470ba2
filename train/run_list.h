#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <etna/device/file_path.h>

/// The list of all training runs of a user, which `etna runs` shows: one JSON object a line in runs.jsonl.
namespace etna::training {

enum class Outcome { finished, interrupted, failed };

const char* name(Outcome outcome);

/// One run.
struct RunRecord {
  std::string id = {};    ///< of new_run_id()
  std::string time = {};  ///< of the start, as utc_time() gives it
  FilePath folder = {};
  std::string program = {};   ///< "wikitext train"
  std::string device = {};    ///< "vulkan:0 (NVIDIA H200)"
  std::string config = "{}";  ///< a JSON object
  std::int64_t steps = 0;
  std::vector<std::pair<std::string, double>> numbers = {};       ///< {"final_loss", 2.03}, {"accuracy", 0.95} …
  std::vector<std::pair<std::string, double>> perplexities = {};  ///< {"valid", 21.3}, {"test", 20.9}
  Outcome outcome = Outcome::finished;

  /// Of `numbers`, or "valid_perplexity" of `perplexities`.
  std::optional<double> number(std::string_view name) const;
};

/// Eight random hexadecimal digits.
std::string new_run_id();

/// "2026-11-23T01:30:06Z". @param seconds since 1970; without it now
std::string utc_time(std::optional<std::int64_t> seconds = std::nullopt);

/// runs.jsonl in $ETNA_RUNS, else $XDG_STATE_HOME/etna, else ~/.local/state/etna (Windows: %LOCALAPPDATA%\etna). Empty
/// where none of them is known.
FilePath run_list_file();

/// The record as a line of the file has it, without the line break. Numbers that are not finite are null.
/// @throws Error for a config that is no JSON object, or a number with the name of another field
std::string json_text(const RunRecord& run);

/// Adds a line, and makes the file and its folder where they are missing. Processes may do so at the same time. A
/// record with the id of an earlier one replaces it: a run that is resumed keeps its id. Does nothing for an empty
/// `file`.
/// @throws FormatError for a file that cannot be written, Error as json_text()
void append_run(const RunRecord& run, const FilePath& file = run_list_file());

struct RunList {
  std::vector<RunRecord> runs;  ///< oldest first
  std::size_t damaged = 0;      ///< lines that were skipped
};

/// Empty for a file that does not exist. @throws FormatError for one that cannot be read
RunList read_runs(const FilePath& file = run_list_file());

/// The run of a folder or of an id, which may be cut to a prefix that only one has. Of several runs in a folder, the
/// last.
/// @throws FormatError naming what is there for an unknown or ambiguous name
const RunRecord& find_run(const RunList& list, const std::string& name);

}  // namespace etna::training
