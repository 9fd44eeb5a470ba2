#pragma once

#include <memory>
#include <string>
#include <string_view>

#include <etna/device/error.h>
#include <etna/device/file_path.h>

namespace etna::os {
class File;
}

namespace etna::training {

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

}  // namespace etna::training
