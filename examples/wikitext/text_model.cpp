#include <algorithm>

#include <fmt/format.h>

#include <etna/data/tokenizers/tokenizer.h>
#include <etna/etna.h>
#include <etna/models/model_file.h>

#include "wikitext.h"

namespace wikitext {

using namespace etna;

namespace {

/// A decoder by its setting.
struct DecoderKind {
  const char *setting, *architecture, *description;
};
constexpr DecoderKind kDecoders[] = {{"transformer", "gpt2", "layers"}, {"llama", "llama", "layers like Llama's"}};

const DecoderKind& kind_of(const Settings& s) {
  return *std::find_if(std::begin(kDecoders), std::end(kDecoders), [&](const auto& k) { return s.model == k.setting; });
}

models::DecoderConfig decoder_config(const Settings& s, std::int64_t words) {
  models::DecoderConfig config =
      models::decoder_config(kind_of(s).architecture, {.vocabulary = words,
                                                       .context = s.seq,
                                                       .width = s.dim,
                                                       .layers = s.layers,
                                                       .heads = s.heads,
                                                       .feed_forward = s.ffn,
                                                       .dropout = s.dropout,
                                                       .recompute_blocks = s.recompute == "blocks"});
  config.tied = true;
  return config;
}

TextModel decoder(const Settings& s, std::unique_ptr<models::Decoder> model) {
  const models::DecoderConfig c = model->config;
  const auto on_streams = [m = model.get()](std::int64_t, Device) {
    return training::StreamModel{
        .module = m,
        .loss = [m](const Tensor& x, const Tensor& y) { return m->loss(x, y); },
        .hidden = [m](const Tensor& x) { return m->hidden(x); },
        .head = [m](const Tensor& hidden) { return linear(hidden, m->token_embedding.weight); },
        .dim = m->config.width};
  };
  return {std::move(model), on_streams, c.vocabulary,
          fmt::format("{} {}, {} heads, width {}, {} tokens of context", c.layers, kind_of(s).description, c.heads,
                      c.width, c.context),
          c};
}

TextModel lstm(const Settings& s, std::int64_t vocab) {
  const nn::LSTMLanguageModelConfig c = {.layers = s.layers,
                                         .dim = s.dim,
                                         .hidden = s.hidden,
                                         .vocab = vocab,
                                         .dropout_embedding = s.dropout_embedding,
                                         .dropout_input = s.dropout_input,
                                         .dropout_hidden = s.dropout_hidden,
                                         .dropout_output = s.dropout,
                                         .weight_drop = s.weight_drop,
                                         .activation = s.activation,
                                         .slowness = s.slowness};
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

}  // namespace

void check_decoder(const Settings& s) {
  try {
    decoder_config(s, 1).check();
  } catch (const FormatError& error) {
    throw training::SettingError(error.what());
  }
}

TextModel make_model(const Settings& s, std::int64_t words, Device device) {
  const std::int64_t vocab = entries(s, words);
  TextModel made =
      s.model == "lstm" ? lstm(s, vocab) : decoder(s, std::make_unique<models::Decoder>(decoder_config(s, vocab)));
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
  if (s.model != "lstm") {
    saved.model = decoder(s, models::load_model(file, {.device = device, .trainable = true}).decoder);
    return saved;
  }
  // The table first: settings must not make us build a model that the file cannot fill.
  const Shape shape = {entries(s, static_cast<std::int64_t>(saved.tokenizer->size())), s.dim};
  const auto table = std::find_if(state.tensors.begin(), state.tensors.end(),
                                  [](const auto& named) { return named.first == "model.embedding.weight"; });
  if (table == state.tensors.end() || table->second.shape() != shape)
    throw FormatError(
        fmt::format("{} does not fit its settings: its table of words should be {}", file.string(), str(shape)));
  saved.model = lstm(s, shape[0]);
  restore(file, state, {{"model", *saved.model.module}});
  saved.model.module->to(device);
  return saved;
}

void refuse_older_names(const FilePath& run) {
  const auto weight = models::renamed_weight(read_checkpoint(training::best_checkpoint(run)));
  if (!weight) return;
  throw FormatError(
      fmt::format("{}: an older version wrote this run's GPT-2, whose weights had other names ('{}' is '{}' now); eval "
                  "and generate read it, but it cannot be resumed: train anew in another folder",
                  run.string(), weight->there, weight->here));
}

}  // namespace wikitext
