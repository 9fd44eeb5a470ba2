#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <etna/device/file_path.h>
#include <etna/device/owned.h>
#include <etna/tensor/io/checkpoint.h>

namespace etna::training {

/// The checkpoints in a folder: step-000001200.safetensors for each of the last few, and two more names (hard links)
/// for one of them each, latest.safetensors and best.safetensors.
struct CheckpointFiles {
  std::vector<FilePath> steps;  ///< the newest first
  FilePath latest, best;        ///< empty if not there
};
CheckpointFiles find_checkpoints(const FilePath& folder);

struct CheckpointerOptions {
  std::int64_t keep = 2;      ///< how many of the newest to keep, at least 1; the best one is kept besides
  double seconds = 30;        ///< due() this long after the last one
  bool in_background = true;  ///< false: save() returns when the file is written
};

/// Saves a run while it trains, and finds its newest whole checkpoint again. Besides the items, the random state is
/// saved, so that a run that holds all of its state in items ends with the same bits as one that was never stopped.
///     training::Checkpointer checkpoints("run/checkpoints",
///                                     {{"model", model}, {"optimizer", optimizer}, {"step", step}});
///     checkpoints.restore();
///     while (step < total) {
///       train_step();
///       if (checkpoints.due()) checkpoints.save(++step);
///     }
///     checkpoints.save(step);
///     checkpoints.wait();
///
/// save() copies the state on its device, which takes its size in memory once more, and a thread downloads and writes
/// the copy. If a device has no room for the copy, or the last file is not written yet, save() waits. Files are written
/// beside, flushed to disk and renamed: a run killed at any moment leaves whole checkpoints only.
class Checkpointer {
 public:
  /// Makes the folder. @param items live as long as the checkpointer @throws FormatError, Error for keep < 1
  Checkpointer(FilePath folder, std::vector<CheckpointItem> items, CheckpointerOptions options = {});
  /// Waits for the file that is being written.
  ~Checkpointer();

  struct Restored {
    FilePath path;
    Metadata metadata;
    std::vector<std::string> damaged;  ///< a sentence for each newer file that could not be used
  };
  /// Loads the newest checkpoint that is whole; newer ones get the ending .damaged. Empty if there is none at all.
  /// @throws FormatError if all are damaged, or if a whole one does not fit the items
  std::optional<Restored> restore();

  /// True once options.seconds have passed since the last save(), restore() or the beginning.
  bool due() const;
  /// Saves the present state as that of `step`. @param best it gets the name best.safetensors too
  /// @throws FormatError if this or the last file could not be written: a full disk. Older checkpoints are then whole.
  void save(std::int64_t step, const Metadata& metadata = {}, bool best = false);
  /// Waits until what was saved is on disk. @throws FormatError as save()
  void wait();

  const FilePath& folder() const { return folder_; }

 private:
  struct RandomNumbers;
  struct Job;
  std::vector<CheckpointItem> all_items();
  void write(const Job& job) const;

  FilePath folder_;
  std::vector<CheckpointItem> items_;
  CheckpointerOptions options_;
  Owned<RandomNumbers> random_;
  Owned<Job> job_;  ///< being written
  double last_;     ///< seconds of a steady clock
};

}  // namespace etna::training
