#include "saved_model.h"

#include <algorithm>

#include <fmt/format.h>

#include <etna/etna.h>

namespace wikitext {

using namespace etna;
namespace fs = std::filesystem;

std::map<std::string, Tensor> SavedWords::state_dict() const {
  std::vector<std::uint8_t> text;
  for (std::size_t id = 0; id < vocabulary.size(); ++id) {
    const std::string_view word = vocabulary.word(static_cast<std::int32_t>(id));
    text.insert(text.end(), word.begin(), word.end());
    text.push_back('\n');
  }
  return {{"text", from_vector(text)}};
}

void SavedWords::load_state_dict(const std::map<std::string, Tensor>& state) const {
  const auto found = state.find("text");
  if (found == state.end() || found->second.dtype() != u8 || found->second.dim() != 1)
    throw FormatError("it is no list of words");
  const auto bytes = found->second.to_vector<std::uint8_t>();
  data::Vocabulary words;
  for (auto at = bytes.begin(); at != bytes.end();) {
    const auto end = std::find(at, bytes.end(), '\n');
    if (end == bytes.end()) throw FormatError("the last word is cut off");
    words.add(std::string(at, end));
    at = end + 1;
  }
  if (vocabulary.empty()) {
    vocabulary = std::move(words);
  } else if (!(vocabulary == words)) {
    throw FormatError(fmt::format("the corpus has {} words, and the run was trained on {} others; name the same text",
                                  vocabulary.size(), words.size()));
  }
}

namespace {

fs::path file_of(const fs::path& path) {
  std::error_code ignored;
  if (fs::is_regular_file(path, ignored)) return path;
  const training::CheckpointFiles files = training::find_checkpoints(path / "checkpoints");
  if (!files.best.empty()) return files.best;
  if (!files.latest.empty()) return files.latest;
  throw FormatError(fmt::format("{} has no checkpoints; name the --out folder of a training run", path.string()));
}

}  // namespace

SavedModel load_model(const fs::path& folder_or_file, Device device) {
  const fs::path file = file_of(folder_or_file);
  const CheckpointState state = read_checkpoint(file);
  SavedModel saved;
  const auto settings = state.metadata.find(kSettingsKey);
  if (settings == state.metadata.end())
    throw FormatError(fmt::format("{} is a checkpoint of another program: it has no settings", file.string()));
  try {
    SettingList list(saved.settings);
    list.read(settings->second, file.string());
    list.check();
  } catch (const SettingError& error) {
    throw FormatError(error.what());
  }
  if (state.metadata.contains(kPresetKey)) saved.preset = state.metadata.at(kPresetKey);
  SavedWords words{saved.vocabulary};
  restore(file, state, {{"vocabulary", words}});
  const auto words_there = static_cast<std::int64_t>(saved.vocabulary.size());
  // The table first: settings must not make us build a model that the file cannot fill.
  const auto [name, shape] = table_of(saved.settings, words_there);
  const auto table = std::find_if(state.tensors.begin(), state.tensors.end(),
                                  [&name = name](const auto& named) { return named.first == name; });
  if (table == state.tensors.end() || table->second.shape() != shape) {
    throw FormatError(fmt::format("{} does not fit its settings: {} should be {}", file.string(), name, str(shape)));
  }
  saved.model = make_model(saved.settings, words_there);
  restore(file, state, {{"model", saved.model->module()}});
  saved.model->module().to(device);
  return saved;
}

Metadata newest_metadata(const fs::path& folder) {
  for (const fs::path& file : training::find_checkpoints(folder / "checkpoints").steps) {
    try {
      return read_checkpoint(file).metadata;
    } catch (const FormatError&) {
      continue;  // the checkpointer says so when it restores
    }
  }
  throw FormatError(fmt::format("{} has no checkpoint that can be used; --force begins anew", folder.string()));
}

}  // namespace wikitext
