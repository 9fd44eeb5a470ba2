#include <etna/train/checkpointer.h>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <string_view>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include <etna/device/error.h>
#include <etna/device/internal/os/clock.h>
#include <etna/device/internal/platform.h>
#include <etna/tensor/op.h>
#include <etna/tensor/ops.h>

namespace etna::training {
namespace {

namespace fs = std::filesystem;
constexpr std::string_view kCheckpointerPrefix = "step-", kEnding = ".safetensors";

FilePath step_file(const FilePath& folder, std::int64_t step) {
  return folder / fmt::format("{}{:09}{}", kCheckpointerPrefix, step, kEnding);
}

/// The step of a checkpoint's file name; negative for other files.
std::int64_t step_of(const fs::path& file) {
  const std::string name = file.filename().string();
  if (!name.starts_with(kCheckpointerPrefix) || !name.ends_with(kEnding)) return -1;
  const std::string digits =
      name.substr(kCheckpointerPrefix.size(), name.size() - kCheckpointerPrefix.size() - kEnding.size());
  const bool number = !digits.empty() && digits.size() <= 18 && digits.find_first_not_of("0123456789") == digits.npos;
  return number ? std::stoll(digits) : -1;
}

/// Gives the file another name, which replaces what had that name. A file system without hard links gets a copy.
void also_named(const fs::path& file, const fs::path& name) {
  fs::path temporary = name;
  temporary += ".tmp";
  std::error_code error;
  fs::remove(temporary, error);
  fs::create_hard_link(file, temporary, error);
  if (error) fs::copy_file(file, temporary, fs::copy_options::overwrite_existing, error);
  if (!error) fs::rename(temporary, name, error);
  if (error) throw FormatError(fmt::format("{} cannot be written: {}", name.string(), error.message()));
}

}  // namespace

CheckpointFiles find_checkpoints(const FilePath& folder) {
  CheckpointFiles found;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (name == "latest.safetensors") found.latest = at->path();
    if (name == "best.safetensors") found.best = at->path();
    if (step_of(at->path()) >= 0) found.steps.push_back(at->path());
  }
  std::sort(found.steps.begin(), found.steps.end(),
            [](const FilePath& a, const FilePath& b) { return step_of(a) > step_of(b); });
  return found;
}

/// The process's random state as an object of the checkpoint.
struct Checkpointer::RandomNumbers {
  std::map<std::string, Tensor> state_dict() const {
    const RandomState now = random_state();
    return {{"state", from_vector({static_cast<std::int64_t>(now.seed), static_cast<std::int64_t>(now.offset)})}};
  }
  void load_state_dict(const std::map<std::string, Tensor>& state) {
    const auto found = state.find("state");
    if (found == state.end() || found->second.dtype() != i64 || found->second.shape() != Shape{2})
      throw FormatError("it is no random state: two i64 numbers");
    const auto numbers = found->second.to_vector<std::int64_t>();
    set_random_state({static_cast<std::uint64_t>(numbers[0]), static_cast<std::uint64_t>(numbers[1])});
  }
};

/// One checkpoint on its way to disk.
struct Checkpointer::Job {
  std::int64_t step;
  bool best;
  CheckpointState state;  ///< freed by the thread that made it
  std::exception_ptr failure = {};
  std::thread thread = {};
};

Checkpointer::Checkpointer(FilePath folder, std::vector<CheckpointItem> items, CheckpointerOptions options)
    : folder_(std::move(folder)),
      items_(std::move(items)),
      options_(options),
      random_(std::make_unique<RandomNumbers>()),
      last_(os::steady_seconds()) {
  if (options.keep < 1)
    throw Error(fmt::format("Checkpointer: keep is {}; at least the newest one is kept", options.keep));
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error) throw FormatError(fmt::format("{} cannot be made: {}", folder_.string(), error.message()));
}

Checkpointer::~Checkpointer() {
  if (job_ && job_->thread.joinable()) job_->thread.join();
}

std::vector<CheckpointItem> Checkpointer::all_items() {
  std::vector<CheckpointItem> all = items_;
  all.emplace_back("random", *random_);
  return all;
}

std::optional<Checkpointer::Restored> Checkpointer::restore() {
  wait();
  Restored restored;
  std::vector<FilePath> bad_files;
  for (const FilePath& path : find_checkpoints(folder_).steps) {
    CheckpointState state;
    try {
      state = read_checkpoint(path);
    } catch (const FormatError& error) {
      restored.damaged.emplace_back(error.what());
      bad_files.push_back(path);
      continue;
    }
    etna::restore(path, state, all_items());
    // A later save() must not count them among the newest.
    for (const FilePath& bad : bad_files) {
      std::error_code ignored;
      fs::rename(bad, FilePath(bad.string() + ".damaged"), ignored);
    }
    restored.path = path;
    restored.metadata = std::move(state.metadata);
    last_ = os::steady_seconds();
    return restored;
  }
  if (restored.damaged.empty()) return std::nullopt;
  std::string all;
  for (const std::string& damage : restored.damaged) all += "\n  " + damage;
  throw FormatError(fmt::format("{}: no checkpoint can be used:{}", folder_.string(), all));
}

bool Checkpointer::due() const { return os::steady_seconds() - last_ >= options_.seconds; }

void Checkpointer::save(std::int64_t step, const Metadata& metadata, bool best) {
  const GradMode off(false);
  // Before a failure of the last one is thrown: where ranks gather state, all of them take part.
  auto job = std::make_unique<Job>(Job{step, best, checkpoint_state(all_items(), metadata)});
  wait();
  last_ = os::steady_seconds();
  try {
    for (auto& [name, tensor] : job->state.tensors) tensor = tensor.clone();
  } catch (const OutOfMemory&) {
    // Those that were copied and those that were not are equal until training goes on.
    write(*job);
    return;
  }
  job_ = std::move(job);
  auto work = [this, j = job_.get()] {
    try {
      write(*j);
    } catch (...) {
      j->failure = std::current_exception();
    }
  };
  if (kHasThreads)
    job_->thread = std::thread(work);
  else
    work();
  if (!options_.in_background) wait();
}

void Checkpointer::wait() {
  if (!job_) return;
  if (job_->thread.joinable()) job_->thread.join();
  const std::exception_ptr failure = job_->failure;
  job_.reset();
  if (failure) std::rethrow_exception(failure);
}

void Checkpointer::write(const Job& job) const {
  const FilePath file = step_file(folder_, job.step);
  write_checkpoint(file, job.state);
  also_named(file, folder_ / "latest.safetensors");
  if (job.best) also_named(file, folder_ / "best.safetensors");
  std::int64_t kept = 1;
  for (const FilePath& older : find_checkpoints(folder_).steps) {
    std::error_code ignored;
    if (step_of(older) < job.step && ++kept > options_.keep) fs::remove(older, ignored);
  }
}

}  // namespace etna::training
