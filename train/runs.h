#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <etna/device/device.h>
#include <etna/device/error.h>
#include <etna/device/file_path.h>
#include <etna/tensor/io/checkpoint.h>

namespace etna::profile {
struct Profile;
}

namespace etna::os {
class File;
}

namespace etna::training {

class SettingList;
struct RunSummary;

/// What to do with a folder that holds a run already.
enum class ExistingRun {
  refuse,     ///< an error, also for other files that a run would replace
  overwrite,  ///< remove what belongs to the old run; other files stay
  resume,     ///< go on with it; an error if there is none
};

/// A folder holds a run, or a file that has the name of one of a run's.
struct FolderTaken : FormatError {
  using FormatError::FormatError;
};

/// The folder of a run: config.json, environment.json, metrics, checkpoints/ and reports. While the object lives, other
/// processes are refused. Temporary files that a killed process left are removed.
///     training::RunFolder run("runs/first", training::ExistingRun::refuse);
///     run.write("config.json", config);
class RunFolder {
 public:
  /// Makes the folder and tries to write in it. @throws FolderTaken for ExistingRun::refuse, FormatError where another
  /// process trains in it, or it cannot be written
  RunFolder(FilePath folder, ExistingRun existing);
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  const FilePath& path() const { return folder_; }
  FilePath checkpoints() const { return folder_ / "checkpoints"; }
  /// Replaces a file as a whole. @throws FormatError
  void write(std::string_view name, std::string_view text) const;

 private:
  void lock();

  FilePath folder_;
  std::unique_ptr<os::File> lock_;
};

/// True if the folder holds a run: its config.json, metrics or a checkpoint.
bool holds_run(const FilePath& folder);

// The list of all training runs of a user, which `etna runs` shows: one JSON object a line in runs.jsonl.

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

/// Holds a run's folder, for programs with --resume and --force; null for an empty name.
/// @throws FormatError as RunFolder(), and for a resumed run with checkpoints of another one
std::unique_ptr<RunFolder> open_run(const FilePath& folder, bool resume, bool force);

/// The best checkpoint of a run's folder, or else its latest; or the file that is named. @throws FormatError
FilePath best_checkpoint(const FilePath& folder_or_file);

/// The metadata of the newest whole checkpoint of a run's folder. @throws FormatError if there is none
Metadata newest_metadata(const FilePath& folder);

/// The step that a folder's summary.json is of; negative where there is none that can be read.
std::int64_t reported_step(const FilePath& folder);

/// Prints where the time of profiled steps went; `seen` is empty where the training ended before them.
/// @param trace a file for them too (profile::write_trace()); empty: none
void report_profile(const std::optional<profile::Profile>& seen, const std::string& trace);

/// What is written about a run: its folder's files and its line in the list of runs (`etna runs`).
class RunRecords {
 public:
  /// Keys of a checkpoint's metadata: what the run was, as a resumed one goes on with it. Settings are TOML.
  static constexpr const char *kSettings = "settings", *kPreset = "preset", *kCorpus = "corpus", *kRun = "run";

  /// The settings of a checkpoint. @throws FormatError with the sentence `missing` where there are none
  static const std::string& settings_of(const Metadata& checkpoint, const std::string& missing);
  /// The preset of a checkpoint, or else `otherwise`.
  static std::string preset_of(const Metadata& checkpoint, const std::string& otherwise);

  struct Facts {
    std::string program;                   ///< "wikitext train"
    std::string preset = {}, corpus = {};  ///< for people
    Device device = {};
    FilePath folder = {};   ///< empty: only the list of runs
    Metadata resumed = {};  ///< of the checkpoint that a resumed run goes on from; empty: a new run
  };
  RunRecords(Facts facts, const SettingList& settings);

  /// For checkpoints.
  Metadata metadata() const;
  /// Writes config.toml and environment.json.
  void begin(const RunFolder& folder) const;
  /// Adds the run to the list. A list that cannot be written is a warning, and no error.
  void end(Outcome outcome, const RunSummary& summary) const;
  /// Writes summary.json, loss.svg and report.html, draws the loss in the terminal and prints where the files are.
  /// @param sample what the model wrote @param profile_svg of profile::trace_picture(); both may be empty
  void finish(const RunFolder& folder, const RunSummary& summary, const std::string& sample,
              const std::string& profile_svg) const;

 private:
  Facts facts_;
  std::string id_, time_, config_toml_, config_json_;
};

}  // namespace etna::training
