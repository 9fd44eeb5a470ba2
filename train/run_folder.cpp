#include <etna/train/runs.h>

#include <array>
#include <filesystem>
#include <span>
#include <vector>

#include <fmt/format.h>

#include <etna/device/error.h>
#include <etna/device/internal/os/files.h>
#include <etna/device/internal/os/process.h>
#include <etna/device/output_file.h>
#include <etna/train/checkpointer.h>

namespace etna::training {
namespace {

namespace fs = std::filesystem;

bool ends_with_any(const std::string& name, std::initializer_list<std::string_view> endings) {
  for (const std::string_view ending : endings) {
    if (name.ends_with(ending)) return true;
  }
  return false;
}

/// Files in the folder that a run writes.
bool belongs_to_run(const std::string& name) {
  for (const char* own : {"config.json", "config.toml", "environment.json", "summary.json", "metrics.csv",
                          "metrics.jsonl", "loss.svg", "report.html"}) {
    if (name == own) return true;
  }
  return name.starts_with("events.out.tfevents.");
}

template <typename Wanted>
std::vector<FilePath> files_in(const FilePath& folder, const Wanted& wanted) {
  std::vector<FilePath> found;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    if (at->is_regular_file(error) && wanted(at->path().filename().string())) found.push_back(at->path());
  }
  return found;
}

void remove_all(const std::vector<FilePath>& files) {
  for (const FilePath& file : files) {
    std::error_code error;
    if (!fs::remove(file, error) && error)
      throw FormatError(fmt::format("{} cannot be removed: {}", file.string(), error.message()));
  }
}

}  // namespace

bool holds_run(const FilePath& folder) {
  return !files_in(folder,
                   [](const std::string& name) {
                     return name == "config.json" || name == "metrics.csv" || name == "metrics.jsonl";
                   })
              .empty() ||
         !find_checkpoints(folder / "checkpoints").steps.empty();
}

RunFolder::RunFolder(FilePath folder, ExistingRun existing) : folder_(std::move(folder)) {
  const std::string name = folder_.string();
  const bool held = holds_run(folder_);
  if (existing == ExistingRun::refuse && held)
    throw FolderTaken(fmt::format("{} holds a run; name another folder, or go on with it", name));
  if (existing == ExistingRun::refuse) {
    if (const std::vector<FilePath> others = files_in(folder_, belongs_to_run); !others.empty())
      throw FolderTaken(
          fmt::format("{} is there already, and a run would replace it; name another folder", others[0].string()));
  }
  if (existing == ExistingRun::resume && !held) throw FormatError(fmt::format("{} holds no run to resume", name));
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error) throw FormatError(fmt::format("{} cannot be made: {}", name, error.message()));
  lock();
  const auto temporary = [](const std::string& file) { return ends_with_any(file, {".tmp", ".part"}); };
  remove_all(files_in(folder_, temporary));
  remove_all(files_in(checkpoints(), temporary));
  if (existing != ExistingRun::overwrite) return;
  remove_all(files_in(folder_, belongs_to_run));
  remove_all(files_in(checkpoints(), [](const std::string& file) {
    return ends_with_any(file, {".safetensors", ".safetensors.damaged"});
  }));
}

RunFolder::~RunFolder() = default;

void RunFolder::lock() {
  std::error_code error;
  const auto check = [&] {
    if (error) throw FormatError(fmt::format("{} cannot be written: {}", folder_.string(), error.message()));
  };
  lock_ = std::make_unique<os::File>(folder_ / ".lock", os::File::Open::update, error);
  check();
  const os::File::Lock result = lock_->try_lock();
  if (result == os::File::Lock::busy) {
    std::array<char, 32> owner{};
    const std::size_t length = lock_->read_at(0, std::span(owner).first(owner.size() - 1));
    lock_.reset();
    throw FormatError(fmt::format("{} is in use: process {} trains in it; name another folder, or wait for it",
                                  folder_.string(), length > 0 ? owner.data() : "?"));
  }
  // A file system without locks (some network ones) cannot tell.
  if (result == os::File::Lock::unsupported) return lock_.reset();
  lock_->truncate(0, error);
  check();
  lock_->write(std::to_string(os::process_id()), error);
  check();
}

void RunFolder::write(std::string_view name, std::string_view text) const { io::write_file(folder_ / name, text); }

}  // namespace etna::training
