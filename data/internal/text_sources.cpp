#include <etna/data/internal/text_sources.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <etna/data/internal/glob_match.h>
#include <etna/device/error.h>
#include <etna/device/internal/os/files.h>

namespace etna::data {
namespace {

namespace fs = std::filesystem;

using Identity = decltype(os::FileInfo::identity);

class Search {
 public:
  Search(std::span<const std::string> globs) : globs_(globs) {}

  void add(const FilePath& input) {
    std::error_code error;
    const os::FileInfo info = os::file_info(input, error);
    if (error)
      throw FormatError(fmt::format("{}: {}", input.string(),
                                    error == std::errc::no_such_file_or_directory
                                        ? "there is no such file or folder"
                                        : fmt::format("cannot be read: {}", error.message())));
    if (info.kind == os::FileKind::folder) {
      root_ = input;
      walk(input, info.identity);
      return;
    }
    if (const auto known = names_.emplace(info.identity, input); !known.second)
      found_.left_out.push_back(same(input, known.first->second));
    else
      found_.files.push_back(input);
  }

  TextSources finish(std::span<const FilePath> inputs) {
    if (!found_.files.empty()) return std::move(found_);
    std::vector<std::string> names;
    for (const FilePath& input : inputs) names.push_back(input.string());
    throw FormatError(fmt::format("{}: has no text file ({}){}; name a file, or give other patterns by --glob",
                                  fmt::join(names, ", "), fmt::join(globs_, ", "),
                                  found_.left_out.empty() ? "" : fmt::format(": {}", found_.left_out.front())));
  }

 private:
  static std::string same(const FilePath& file, const FilePath& other) {
    return fmt::format("{} is the same file as {}", file.string(), other.string());
  }

  bool wanted(const fs::path& file) const {
    const std::string name = file.filename().string(), below = file.lexically_relative(root_).generic_string();
    return std::any_of(globs_.begin(), globs_.end(), [&](const std::string& glob) {
      const bool whole = glob.find('/') != std::string::npos;
      return glob_match(glob, whole ? below : name);
    });
  }

  void walk(const fs::path& folder, Identity identity) {
    if (const auto known = above_.emplace(identity, folder); !known.second)
      throw FormatError(fmt::format("{}: is a loop: it leads back to {}; remove the link, or name the files",
                                    folder.string(), known.first->second.string()));
    std::vector<fs::path> entries;
    std::error_code error;
    for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
      if (!at->path().filename().string().starts_with('.')) entries.push_back(at->path());
    if (error) throw FormatError(fmt::format("{}: cannot be read: {}", folder.string(), error.message()));
    std::sort(entries.begin(), entries.end());
    for (const fs::path& entry : entries) visit(entry);
    above_.erase(identity);
  }

  void visit(const fs::path& entry) {
    std::error_code error;
    const os::FileInfo info = os::file_info(entry, error);
    if (error) {
      if (!wanted(entry)) return;
      const bool nothing = error == std::errc::no_such_file_or_directory;
      throw FormatError(
          fmt::format("{}: cannot be read: {}", entry.string(), nothing ? "it is a link to nothing" : error.message()));
    }
    if (info.kind == os::FileKind::folder) return walk(entry, info.identity);
    if (!wanted(entry)) return;
    if (info.kind != os::FileKind::regular) {
      found_.left_out.push_back(fmt::format("{} is not a regular file", entry.string()));
    } else if (info.bytes == 0) {
      found_.left_out.push_back(fmt::format("{} is empty", entry.string()));
    } else if (const auto known = names_.emplace(info.identity, entry); !known.second) {
      found_.left_out.push_back(same(entry, known.first->second));
    } else {
      found_.files.push_back(entry);
    }
  }

  std::span<const std::string> globs_;
  fs::path root_;
  std::map<Identity, fs::path> names_, above_;
  TextSources found_;
};

std::vector<std::string> names_of(const std::string& split) {
  return {fmt::format("wiki.{}.tokens", split), fmt::format("wiki.{}.raw", split), split + ".txt"};
}

}  // namespace

std::vector<std::string> text_globs() { return {"*.txt", "*.md", "*.tokens", "*.raw"}; }

TextSources find_text_files(std::span<const FilePath> inputs, std::span<const std::string> globs) {
  Search search(globs);
  for (const FilePath& input : inputs) search.add(input);
  return search.finish(inputs);
}

FilePath find_split(const FilePath& folder, const std::string& split) {
  std::error_code none;
  for (const std::string& name : names_of(split))
    if (fs::exists(folder / name, none)) return folder / name;
  return {};
}

std::string split_names(const std::string& split) {
  const std::vector<std::string> names = names_of(split);
  return fmt::format("{}, {} nor {}", names[0], names[1], names[2]);
}

}  // namespace etna::data
