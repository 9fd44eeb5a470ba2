#include "saved_model.h"

#include <algorithm>

#include <fmt/format.h>

#include <etna/data/tokenizers/word_tokenizer.h>
#include <etna/etna.h>

namespace wikitext {

using namespace etna;
namespace fs = std::filesystem;

std::map<std::string, Tensor> SavedTokenizer::state_dict() const {
  std::string text;
  const bool words = tokenizer->name() == "word";
  if (words) {
    for (std::size_t id = 0; id < tokenizer->size(); ++id)
      text.append(tokenizer->token(static_cast<std::int32_t>(id))).push_back('\n');
  } else {
    text = tokenizer->json();
  }
  return {{words ? "text" : "json", from_vector(std::vector<std::uint8_t>(text.begin(), text.end()))}};
}

void SavedTokenizer::load_state_dict(const std::map<std::string, Tensor>& state) const {
  const bool words = state.contains("text");
  const auto found = state.find(words ? "text" : "json");
  if (found == state.end() || found->second.dtype() != u8 || found->second.dim() != 1)
    throw FormatError("it is no tokenizer");
  const auto bytes = found->second.to_vector<std::uint8_t>();
  const std::string text(bytes.begin(), bytes.end());
  std::shared_ptr<const data::Tokenizer> loaded;
  if (words) {
    data::Vocabulary vocabulary;
    for (std::size_t at = 0, end; at < text.size(); at = end + 1) {
      end = text.find('\n', at);
      if (end == std::string::npos) throw FormatError("the last word is cut off");
      vocabulary.add(std::string_view(text).substr(at, end - at));
    }
    loaded = std::make_shared<data::WordTokenizer>(std::move(vocabulary));
  } else {
    loaded = data::parse_tokenizer(text, "its tokenizer");
  }
  if (tokenizer == nullptr)
    tokenizer = std::move(loaded);
  else
    require_same(*tokenizer, *loaded, "the run");
}

void require_same(const data::Tokenizer& corpus, const data::Tokenizer& trained, const std::string& run) {
  if (corpus.hash() == trained.hash()) return;
  const auto what = [](const data::Tokenizer& tokenizer, const char* other) {
    return tokenizer.name() == "word" ? fmt::format("{} {}words", tokenizer.size(), other)
                                      : fmt::format("{} {}tokens of {} (hash {:016x})", tokenizer.size(), other,
                                                    tokenizer.name(), tokenizer.hash());
  };
  throw FormatError(
      fmt::format("the corpus has {}, and {} was trained on {}; name the same text, or the folder that "
                  "it was prepared into",
                  what(corpus, ""), run, what(trained, "other ")));
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
  SavedTokenizer tokenizer{saved.tokenizer};
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
