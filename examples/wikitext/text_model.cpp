#include <algorithm>

#include <fmt/format.h>

#include <etna/data/tokenizers/tokenizer.h>
#include <etna/etna.h>
#include <etna/models/decoder.h>

#include "wikitext.h"

namespace wikitext {

using namespace etna;

namespace {

models::DecoderConfig decoder_config(const Settings& s, std::int64_t words) {
  models::DecoderConfig config;  // of the design of Llama: RMS norms, rotary positions, gated feed-forward layers
  config.vocabulary = words;
  config.context = s.seq;
  config.width = s.dim;
  config.layers = s.layers;
  config.heads = config.kv_heads = s.heads;
  config.head_size = config.rope.size = s.dim / s.heads;
  config.feed_forward = s.ffn;
  config.tied = true;
  if (s.model == "llama") return config;
  config.architecture = "gpt2";
  config.norm = models::NormKind::layer;
  config.norm_bias = config.query_bias = config.output_bias = config.ffn_bias = true;
  config.positions = models::PositionKind::learned;
  config.gated = false;
  config.activation = Activation::gelu_tanh;
  return config;
}

const Tensor& table_of(const nn::LanguageModel& model) { return model.wte.weight; }
const Tensor& table_of(const models::Decoder& model) { return model.token_embedding.weight; }

/// @param kind "layers"
template <typename Model>
TextModel transformer(std::unique_ptr<Model> model, const models::DecoderConfig& c, const char* kind) {
  const auto on_streams = [m = model.get(), dim = c.width](std::int64_t, Device) {
    return training::StreamModel{.module = m,
                                 .loss = [m](const Tensor& x, const Tensor& y) { return m->loss(x, y); },
                                 .hidden = [m](const Tensor& x) { return m->hidden(x); },
                                 .head = [m](const Tensor& hidden) { return linear(hidden, table_of(*m)); },
                                 .dim = dim};
  };
  return {std::move(model), on_streams, c.vocabulary,
          fmt::format("{} {}, {} heads, width {}, {} tokens of context", c.layers, kind, c.heads, c.width, c.context),
          c};
}

TextModel lstm(const nn::LSTMLanguageModelConfig& c) {
  auto model = std::make_unique<nn::LSTMLanguageModel>(c);
  const auto on_streams = [m = model.get(), dim = c.dim](std::int64_t batch, Device device) {
    const auto state = std::make_shared<nn::LSTMLanguageModel::State>(*m, batch, device);
    return training::StreamModel{
        .module = m,
        .loss = [m, state](const Tensor& x, const Tensor& y) { return m->loss(x, y, *state); },
        .forget = [state] { state->zero(); },
        .memory = {{"memory", *state}},
        .hidden = [m, state](const Tensor& x) { return m->hidden(x, *state); },
        .head = [m](const Tensor& hidden) { return linear(hidden, m->embedding.weight, m->bias); },
        .dim = dim};
  };
  return {std::move(model), on_streams, c.vocab,
          fmt::format("{} LSTM layers of {}, words of {}", c.layers, c.hidden, c.dim)};
}

/// Entries of the vocabulary for a corpus of so many words.
std::int64_t entries(const Settings& s, std::int64_t words) { return std::max(s.vocab, words); }

TextModel on_the_host(const Settings& s, std::int64_t vocab) {
  if (s.model == "lstm")
    return lstm({.layers = s.layers,
                 .dim = s.dim,
                 .hidden = s.hidden,
                 .vocab = vocab,
                 .dropout_embedding = s.dropout_embedding,
                 .dropout_input = s.dropout_input,
                 .dropout_hidden = s.dropout_hidden,
                 .dropout_output = s.dropout,
                 .weight_drop = s.weight_drop,
                 .activation = s.activation,
                 .slowness = s.slowness});
  const models::DecoderConfig config = decoder_config(s, vocab);
  if (s.model == "llama") return transformer(std::make_unique<models::Decoder>(config), config, "layers like Llama's");
  const nn::LanguageModelConfig gpt2 = {.layers = s.layers,
                                        .heads = s.heads,
                                        .dim = s.dim,
                                        .ffn = s.ffn,
                                        .seq = s.seq,
                                        .vocab = vocab,
                                        .dropout = s.dropout,
                                        .recompute_blocks = s.recompute == "blocks"};
  return transformer(std::make_unique<nn::LanguageModel>(gpt2), config, "layers");
}

}  // namespace

TextModel make_model(const Settings& s, std::int64_t words, Device device) {
  TextModel made = on_the_host(s, entries(s, words));
  made.module->to(device);
  return made;
}

SavedModel load_model(const FilePath& folder_or_file, Device device) {
  const FilePath file = training::best_checkpoint(folder_or_file);
  const CheckpointState state = read_checkpoint(file);
  SavedModel saved;
  saved.preset = training::RunRecords::preset_of(state.metadata, "");
  const std::string settings = training::RunRecords::settings_of(
      state.metadata, fmt::format("{} is a checkpoint of another program: it has no settings", file.string()));
  const Settings& s = saved.settings;
  try {
    training::SettingList list;
    saved.settings.add_to(list);
    list.read(settings, file.string());
    s.check();
  } catch (const training::SettingError& error) {
    throw FormatError(error.what());
  }
  data::TokenizerState tokenizer{saved.tokenizer};
  restore(file, state, {{"vocabulary", tokenizer}});
  const auto words_there = static_cast<std::int64_t>(saved.tokenizer->size());
  // The table first: settings must not make us build a model that the file cannot fill.
  const std::string name = s.model == "transformer" ? "model.wte.weight"
                           : s.model == "llama"     ? "model.token_embedding.weight"
                                                    : "model.embedding.weight";
  const Shape shape = {entries(s, words_there), s.dim};
  const auto table = std::find_if(state.tensors.begin(), state.tensors.end(),
                                  [&name](const auto& named) { return named.first == name; });
  if (table == state.tensors.end() || table->second.shape() != shape)
    throw FormatError(fmt::format("{} does not fit its settings: {} should be {}", file.string(), name, str(shape)));
  saved.model = on_the_host(s, shape[0]);
  restore(file, state, {{"model", *saved.model.module}});
  saved.model.module->to(device);
  return saved;
}

}  // namespace wikitext
