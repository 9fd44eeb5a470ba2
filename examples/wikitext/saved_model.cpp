#include "saved_model.h"

#include <algorithm>

#include <fmt/format.h>

#include <etna/etna.h>

namespace wikitext {

using namespace etna;
namespace fs = std::filesystem;

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
  data::TokenizerState tokenizer{saved.tokenizer};
  restore(file, state, {{"vocabulary", tokenizer}});
  const auto words_there = static_cast<std::int64_t>(saved.tokenizer->size());
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
  for (const FilePath& file : training::find_checkpoints(folder / "checkpoints").steps) {
    try {
      return read_checkpoint(file).metadata;
    } catch (const FormatError&) {
      continue;  // the checkpointer says so when it restores
    }
  }
  throw FormatError(fmt::format("{} has no checkpoint that can be used; --force begins anew", folder.string()));
}

}  // namespace wikitext
