#include <etna/data/corpora/internal/corpus_folder.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include <etna/data/corpora/prepared_corpus.h>
#include <etna/device/error.h>
#include <etna/device/internal/atomic_file.h>

namespace etna::data {
namespace {

namespace fs = std::filesystem;

fs::path whole_path(const fs::path& path) {
  std::error_code none;
  fs::path whole = fs::weakly_canonical(fs::absolute(path, none), none);
  if (whole.empty()) whole = path;
  // "folder/" is "folder".
  return whole.has_filename() ? whole : whole.parent_path();
}

/// Whether `inner` is `outer` or lies below it; both canonical.
bool is_within(const fs::path& inner, const fs::path& outer) {
  return std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first == outer.end();
}

/// "train.tokens.4711-0.tmp": what a process that was killed leaves behind.
bool is_left_over(const std::string& name, const FilePath& folder) {
  if (!name.ends_with(".tmp")) return false;
  const std::vector<FilePath> files = corpus_files(folder);
  return std::any_of(files.begin(), files.end(),
                     [&](const fs::path& file) { return name.starts_with(file.filename().string() + "."); });
}

}  // namespace

std::vector<FilePath> corpus_files(const FilePath& folder) {
  std::vector<FilePath> files{folder / kTokenizerFile};
  for (const char* split : kSplits) files.push_back(folder / token_file_name(split));
  files.push_back(folder / kManifestFile);
  return files;
}

CorpusFolder::CorpusFolder(FilePath folder, bool overwrite) : folder_(std::move(folder)) {
  const std::string name = folder_.string();
  std::error_code error;
  const fs::file_status status = fs::status(folder_, error);
  if (fs::exists(status) && !fs::is_directory(status))
    throw FormatError(fmt::format("{}: is a file; name a folder for the corpus", name));
  if (fs::exists(status)) {
    std::vector<fs::path> left_over;
    fs::directory_iterator at(folder_, error), end;
    for (; !error && at != end; at.increment(error)) {
      if (is_left_over(at->path().filename().string(), folder_))
        left_over.push_back(at->path());
      else
        was_empty_ = false;
    }
    if (error) throw FormatError(fmt::format("{}: cannot be read: {}", name, error.message()));
    if (!was_empty_ && !overwrite)
      throw FormatError(holds_prepared_corpus(folder_)
                            ? fmt::format("{}: already contains a corpus; --force replaces it", name)
                            : fmt::format("{}: contains other files; name an empty or a new folder, or give --force "
                                          "to write among them",
                                          name));
    for (const fs::path& file : left_over) fs::remove(file, error);
  } else {
    const fs::path whole = whole_path(folder_);
    for (fs::path missing = whole; !missing.empty() && !fs::exists(missing, error); missing = missing.parent_path())
      made_.insert(made_.begin(), missing);
    fs::create_directories(whole, error);
    if (error) {
      const std::string reason = error.message();
      for (auto made = made_.rbegin(); made != made_.rend(); ++made) fs::remove(*made, error);
      throw FormatError(fmt::format("{}: cannot be made: {}", name, reason));
    }
  }
  try {
    io::require_writable(folder_ / kManifestFile);
  } catch (...) {
    for (auto made = made_.rbegin(); made != made_.rend(); ++made) fs::remove(*made, error);
    throw;
  }
}

CorpusFolder::~CorpusFolder() {
  if (kept_) return;
  std::error_code none;
  if (replacing_ && was_empty_)
    for (const FilePath& file : corpus_files(folder_)) fs::remove(file, none);
  // Only empty folders are removed.
  for (auto made = made_.rbegin(); made != made_.rend(); ++made) fs::remove(*made, none);
}

void CorpusFolder::begin_to_replace() {
  replacing_ = true;
  std::error_code error;
  fs::remove(folder_ / kManifestFile, error);
  if (error)
    throw FormatError(fmt::format("{}: cannot be replaced: {}", (folder_ / kManifestFile).string(), error.message()));
}

void refuse_to_write_input(std::span<const FilePath> inputs, const CorpusInputs& found, const FilePath& folder) {
  const fs::path out = whole_path(folder);
  std::error_code none;
  for (const FilePath& input : inputs) {
    if (fs::is_directory(input, none) && is_within(out, whole_path(input)))
      throw FormatError(fmt::format("{}: {} {}, which is read; name a folder elsewhere", folder.string(),
                                    out == whole_path(input) ? "is" : "lies in", input.string()));
  }
  for (const CorpusInput& input : found.files) {
    if (is_within(whole_path(input.file), out) ||
        is_within(whole_path(fs::absolute(input.file, none).parent_path()), out))
      throw FormatError(
          fmt::format("{}: holds {}, which is read; name another folder", folder.string(), input.file.string()));
  }
}

}  // namespace etna::data
