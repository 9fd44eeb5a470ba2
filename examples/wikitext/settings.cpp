#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <etna/data/text_file.h>

#include "embedded_presets.h"
#include "wikitext.h"

namespace wikitext {

using training::SettingError;

void Settings::add_to(training::SettingList& list) {
  list.choice("model", model, {"transformer", "llama", "lstm"},
              "a transformer like GPT-2 or like Llama, or LSTMs whose state goes on from batch to batch");
  list.integer("layers", layers, 1, 1000, "transformer blocks or LSTMs");
  list.integer("heads", heads, 1, 1024, "transformer: attention heads; they divide dim");
  list.integer("dim", dim, 1, 65536, "width of the model; lstm: of the embedded words and the last layer");
  list.integer("ffn", ffn, 1, 1 << 20, "transformer: width of the feed-forward layers");
  list.integer("hidden", hidden, 1, 65536, "lstm: width of the layers but the last");
  list.integer("seq", seq, 1, 1 << 17, "tokens of a sequence, and of a transformer's context");
  list.integer("seq_spread", seq_spread, 0, 1 << 16,
               "lstm: sequences are longer or shorter by up to this, a multiple of 8");
  list.integer("vocab", vocab, 0, 1 << 24, "entries of the vocabulary at least; 0: the corpus's words");
  list.real("dropout", dropout, 0, 0.95, "share of activations that are zeroed; lstm: behind the last layer");
  list.real("dropout_embedding", dropout_embedding, 0, 0.95, "lstm: share of words that are zeroed");
  list.real("dropout_input", dropout_input, 0, 0.95, "lstm: of the embedded words");
  list.real("dropout_hidden", dropout_hidden, 0, 0.95, "lstm: between layers");
  list.real("weight_drop", weight_drop, 0, 0.95, "lstm: of the weights from step to step");
  list.real("activation", activation, 0, 1e6, "lstm: weight of the mean square of the output in the loss");
  list.real("slowness", slowness, 0, 1e6, "lstm: weight of the mean square of the output's change in the loss");
  Recipe::add_to(list);
}

void Settings::check() const {
  const bool lstm = model == "lstm";
  if (!lstm && dim % heads != 0)
    throw SettingError(fmt::format("heads is {} and dim {}; the heads must divide dim", heads, dim));
  if (seq_spread % 8 != 0 || seq_spread >= seq) {
    throw SettingError(
        fmt::format("seq_spread is {} and seq {}; it should be a multiple of 8 below seq", seq_spread, seq));
  }
  if (seq_spread > 0 && (!lstm || accumulation > 1))
    throw SettingError("seq_spread goes with model = \"lstm\" and accumulation = 1 only");
  if (!lstm) check_decoder(*this);
  if (lstm && recompute != "none") throw SettingError("recompute does not go with model = \"lstm\"");
  if (lr == 0) throw SettingError("lr is 0; nothing would be learned");
}

training::TextRunOptions Settings::run(bool captured, bool resident) const {
  return {.seq = seq, .seq_spread = seq_spread, .captured = captured, .resident = resident};
}

training::TextEvaluatorOptions Settings::evaluation(etna::Device device, const char* title,
                                                    const CacheOptions& cache) const {
  // As many streams as in training, but few for a model that remembers what it read: it seldom begins with nothing.
  return {.seq = seq,
          .streams = model == "lstm" ? std::min<std::int64_t>(8, batch) : batch,
          .evaluator = {.device = device, .precision = etna::dtype_named(precision), .title = title},
          .cache = cache};
}

void read_preset(training::SettingList& list, const std::string& name) {
  std::vector<std::string> names;
  for (const EmbeddedPreset& preset : kEmbeddedPresets) {
    if (preset.name == name) return list.read(preset.text, "preset " + name);
    names.emplace_back(preset.name);
  }
  if (name.ends_with(".toml")) return list.read(etna::data::read_text_file(name), "preset " + name);
  throw SettingError(
      fmt::format("preset '{}' is none of {}, and no file that ends in .toml", name, fmt::join(names, ", ")));
}

}  // namespace wikitext
