#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <etna/device/device.h>
#include <etna/device/error.h>
#include <etna/device/file_path.h>
#include <etna/device/memory.h>
#include <etna/device/owned.h>
#include <etna/tensor/io/checkpoint.h>

namespace etna::os {
class File;
}

namespace etna::profile {
struct Profile;
struct Summary;
}  // namespace etna::profile

namespace etna::training {

class SettingList;

/// A loss that has arrived on the host.
struct LossReading {
  std::int64_t step = 0;  ///< starts at 1
  double loss = 0, lr = 0;
  double seconds = 0;            ///< of training since its beginning
  double tokens_per_second = 0;  ///< since the reading before; 0: not known yet
};

/// The figures of a training run. TrainingLoop::summary() fills in what the loop knows. Each number that is made of
/// them is a row of one table (docs/adding-a-summary-number.md).
struct RunSummary {
  std::string command;                         ///< "wikitext train"
  std::string preset, precision;               ///< "tiny", "f32"
  std::string mode = "captured";               ///< or "eager"
  Device device = {};                          ///< that trained
  std::int64_t parameters = 0;                 ///< of the model
  std::vector<LossReading> losses;             ///< in the order of steps
  std::vector<double> epoch_loss;              ///< means over epochs
  std::vector<double> epoch_seconds;           ///< of epochs that were timed whole
  double seconds = 0, ms_per_step_median = 0;  ///< of training
  std::int64_t first_step = 0, steps = 0;      ///< made before this process began, and in all
  std::int64_t tokens_per_step = 0;            ///< 0: the model reads no tokens
  std::int64_t steps_per_epoch = 0;
  std::string program;          ///< the report of the captured step
  Transfers transfers;          ///< during the training
  MemoryStats memory;           ///< of the device, after the training
  std::uint64_t host_peak = 0;  ///< bytes
  std::optional<double> valid_perplexity, test_perplexity;
  std::optional<double> valid_word_perplexity, test_word_perplexity;  ///< where tokens are no words

  /// 0 where it is not known.
  double tokens_per_second() const;
  /// The median of the measured epochs, else steps per epoch × the median step.
  double seconds_per_epoch() const;
  /// Takes the memory in use and the transfers so far.
  void measure_memory();

  /// The lines that a program prints after its training.
  std::string str() const;
  /// "validation 20.12, test 19.00", and where tokens are no words " a token; validation 80.12, test 75.00 a word".
  std::string perplexities() const;
};

/// A JSON object, with indentation: summary.json.
std::string json_text(const RunSummary& summary);

/// Where a step's time goes, and the speedup from a device that did only the matrix products, and those in no time
/// (Amdahl 1967). Empty if the profile has no steps.
///     matrix products 65.5 %, cross_entropy 10.7 %, layer_norm 4.9 %, other ops 15.4 %, idle 3.5 %; without the
///     products a step would still take 0.54 ms: no more than 2.9 x is to be had there
std::string amdahl_line(const profile::Summary& summary);

/// Which losses are read, so that runs of `total` steps can be compared with those of fewer: about twenty of the first
/// `steps`, then of all.
std::function<bool(std::int64_t step)> comparable_reads(std::int64_t steps, std::int64_t total);
/// Forgets the peaks of memory and the transfers of the run before.
void begin_comparable_run(Device device);

/// The same steps on one device in one precision, op by op and captured.
struct RunPair {
  RunSummary eager, captured;
  std::string amdahl = {};  ///< amdahl_line() of the captured run

  std::string name() const;  ///< "vulkan:0 bf16"
};

/// Prints how the same steps went on several devices and in several precisions, the first pair being the yardstick: a
/// table, amdahl_line() of each, losses side by side, and a conclusion in one line.
/// @param pairs at least one; each run has read a loss
/// @param picture the table as an SVG file; empty: none
/// @param json a file with an array of all runs, as json_text() of a summary, with "loss_difference" and "amdahl"
/// @return true if no loss differs from the yardstick's by more than 2 %; otherwise it is said
/// @throws FormatError for a file that cannot be written
bool report_comparison(const std::vector<RunPair>& pairs, const std::string& title, const FilePath& picture,
                       const FilePath& json);

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
  Owned<os::File> lock_;
};

/// True if the folder holds a run: its config.json, metrics or a checkpoint.
bool holds_run(const FilePath& folder);

// ---- the list of all training runs of a user, which `etna runs` shows: one JSON object a line in runs.jsonl

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

// ---- what a program with --resume and --force keeps of its runs

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
  /// @param prints false: nothing is printed
  void finish(const RunFolder& folder, const RunSummary& summary, const std::string& sample,
              const std::string& profile_svg, bool prints = true) const;

 private:
  Facts facts_;
  std::string id_, time_, config_toml_, config_json_;
};

}  // namespace etna::training
