#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include <etna/device/device.h>
#include <etna/device/file_path.h>
#include <etna/tensor/io/checkpoint.h>
#include <etna/train/run_folder.h>
#include <etna/train/run_list.h>
#include <etna/train/run_summary.h>
#include <etna/train/settings.h>

namespace etna::profile {
struct Profile;
}

namespace etna::training {

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
