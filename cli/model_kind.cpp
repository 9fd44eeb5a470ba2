#include "model_kind.h"

#include <algorithm>
#include <fstream>
#include <vector>

#include <fmt/format.h>

#include <etna/data/text_file.h>
#include <etna/device/error.h>
#include <etna/tensor/io/gguf.h>

namespace etna::cli {
namespace {

namespace fs = std::filesystem;

bool is_endless(const fs::path& path) {
  std::error_code none;
  const fs::file_status status = fs::status(path, none);
  return fs::exists(status) && !fs::is_regular_file(status) && !fs::is_directory(status);
}

/// What readers of models open in a folder.
bool may_be_read(const fs::path& file) {
  const std::string ending = file.extension().string();
  return ending == ".json" || ending == ".safetensors" || ending == ".model" || ending == ".gguf" ||
         ending == ".jinja" || ending == ".bin";
}

std::vector<fs::path> files_of_models(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    if (may_be_read(at->path())) files.push_back(at->path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

/// A file without config.json, which names what could be a model.
std::string why_folder_is_no_model(const fs::path& folder) {
  std::error_code none;
  if (fs::exists(folder / "adapter_config.json", none))
    return "holds low-rank adapters, not a model; give the model that they are for, and this folder with --adapter";
  if (fs::exists(folder / "config.json", none) || fs::exists(folder / "checkpoints", none)) return "";
  std::string names;
  for (const fs::path& file : files_of_models(folder)) {
    const std::string ending = file.extension().string();
    if (ending == ".gguf" || ending == ".bin") names += (names.empty() ? "" : ", ") + file.filename().string();
  }
  return names.empty() ? "" : "is a folder without config.json; name the model in it: " + names;
}

std::string why_gguf_is_no_model(const fs::path& path) try {
  const io::GgufFile file(path);
  return file.string("general.type", "model") == "adapter"
             ? "is a low-rank adapter, not a model; give the model that it is for, and this file with --adapter"
             : "";
} catch (const FormatError&) {
  return "";  // whoever reads it says what is wrong
}

}  // namespace

std::string why_no_model(const fs::path& path) {
  std::error_code none;
  if (is_endless(path)) return "is a pipe or a device, not a model";
  if (fs::is_directory(path, none)) {
    for (const fs::path& file : files_of_models(path)) {
      if (is_endless(file))
        return fmt::format("holds {}, which is a pipe or a device, not a file of a model", file.filename().string());
    }
    return why_folder_is_no_model(path);
  }
  std::ifstream in(path, std::ios::binary);
  std::string begin(512, '\0');
  in.read(begin.data(), static_cast<std::streamsize>(begin.size()));
  begin.resize(static_cast<std::size_t>(in.gcount()));
  if (begin.starts_with("GGUF")) return why_gguf_is_no_model(path);
  // A character at the end may be cut.
  const bool text = !begin.empty() && begin.find('\0') == std::string::npos &&
                    data::find_invalid_utf8(begin) > begin.size() - std::min<std::size_t>(begin.size(), 4);
  const std::string ending = path.extension().string();
  if (!text || (ending == ".json" && path.filename().string().find("index") != std::string::npos)) return "";
  return ending == ".json" ? "is one file of a model; name the folder that it is in"
                           : "is a text, not a model: GGUF, safetensors, or a llama2.c checkpoint";
}

void require_plain_files(const fs::path& path) {
  if (is_endless(path)) throw FormatError(fmt::format("{}: is a pipe or a device, not a file", path.string()));
  for (const fs::path& file : files_of_models(path)) {
    if (is_endless(file)) throw FormatError(fmt::format("{}: is a pipe or a device, not a file", file.string()));
  }
}

}  // namespace etna::cli
