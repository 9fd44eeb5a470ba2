#include "text_model.h"

#include <algorithm>

#include <fmt/format.h>

#include <etna/etna.h>
#include <etna/models/decoder.h>

namespace wikitext {

using namespace etna;

namespace {

std::int64_t entries(const Settings& s, std::int64_t words) { return std::max(s.vocab, words); }

models::DecoderConfig sizes(std::int64_t layers, std::int64_t heads, std::int64_t dim, std::int64_t ffn,
                            std::int64_t seq, std::int64_t words) {
  models::DecoderConfig config;
  config.vocabulary = words;
  config.context = seq;
  config.width = dim;
  config.layers = layers;
  config.heads = config.kv_heads = heads;
  config.head_size = config.rope.size = dim / heads;
  config.feed_forward = ffn;
  config.tied = true;
  return config;
}

class Transformer : public TextModel {
 public:
  explicit Transformer(const nn::LanguageModelConfig& config) : model_(config) {}

  nn::Module& module() override { return model_; }
  bool remembers() const override { return false; }
  std::unique_ptr<Memory> memory(std::int64_t, Device) const override { return std::make_unique<Memory>(); }
  Tensor loss(const Tensor& x, const Tensor& y, Memory&) const override { return model_.loss(x, y); }
  Tensor hidden(const Tensor& x, Memory&) const override { return model_.hidden(x); }
  Tensor head(const Tensor& hidden) const override { return linear(hidden, model_.wte.weight); }
  std::int64_t words() const override { return model_.config.vocab; }
  std::int64_t dim() const override { return model_.config.dim; }
  std::string describe() const override {
    const auto& c = model_.config;
    return fmt::format("{} layers, {} heads, width {}, {} tokens of context", c.layers, c.heads, c.dim, c.seq);
  }
  std::optional<models::DecoderConfig> decoder_config() const override {
    models::DecoderConfig config = sizes(model_.config.layers, model_.config.heads, model_.config.dim,
                                         model_.config.ffn, model_.config.seq, model_.config.vocab);
    config.architecture = "gpt2";
    config.norm = models::NormKind::layer;
    config.norm_bias = config.query_bias = config.output_bias = config.ffn_bias = true;
    config.positions = models::PositionKind::learned;
    config.gated = false;
    config.activation = Activation::gelu_tanh;
    return config;
  }

 private:
  nn::LanguageModel model_;
};

/// Of the design of Llama: RMS norms, rotary positions, gated feed-forward layers.
class Llama : public TextModel {
 public:
  explicit Llama(const models::DecoderConfig& config) : model_(config) {}

  nn::Module& module() override { return model_; }
  bool remembers() const override { return false; }
  std::unique_ptr<Memory> memory(std::int64_t, Device) const override { return std::make_unique<Memory>(); }
  Tensor loss(const Tensor& x, const Tensor& y, Memory&) const override { return model_.loss(x, y); }
  Tensor hidden(const Tensor& x, Memory&) const override { return model_.hidden(x); }
  Tensor head(const Tensor& hidden) const override { return linear(hidden, model_.token_embedding.weight); }
  std::int64_t words() const override { return model_.config.vocabulary; }
  std::int64_t dim() const override { return model_.config.width; }
  std::string describe() const override {
    const auto& c = model_.config;
    return fmt::format("{} layers like Llama's, {} heads, width {}, {} tokens of context", c.layers, c.heads, c.width,
                       c.context);
  }
  std::optional<models::DecoderConfig> decoder_config() const override { return model_.config; }

 private:
  models::Decoder model_;
};

class Recurrent : public TextModel {
 public:
  explicit Recurrent(const nn::LSTMLanguageModelConfig& config) : model_(config) {}

  nn::Module& module() override { return model_; }
  bool remembers() const override { return true; }
  std::unique_ptr<Memory> memory(std::int64_t batch, Device device) const override {
    return std::make_unique<Streams>(model_, batch, device);
  }
  Tensor loss(const Tensor& x, const Tensor& y, Memory& memory) const override {
    return model_.loss(x, y, state(memory));
  }
  Tensor hidden(const Tensor& x, Memory& memory) const override { return model_.hidden(x, state(memory)); }
  Tensor head(const Tensor& hidden) const override { return linear(hidden, model_.embedding.weight, model_.bias); }
  std::int64_t words() const override { return model_.config.vocab; }
  std::int64_t dim() const override { return model_.config.dim; }
  std::string describe() const override {
    const auto& c = model_.config;
    return fmt::format("{} LSTM layers of {}, words of {}", c.layers, c.hidden, c.dim);
  }

 private:
  struct Streams : Memory {
    Streams(const nn::LSTMLanguageModel& model, std::int64_t batch, Device device) : state(model, batch, device) {}
    void clear() override { state.zero(); }
    std::map<std::string, Tensor> state_dict() const override { return state.state_dict(); }
    void load_state_dict(const std::map<std::string, Tensor>& from) override { state.load_state_dict(from); }

    nn::LSTMLanguageModel::State state;
  };
  static nn::LSTMLanguageModel::State& state(Memory& memory) { return static_cast<Streams&>(memory).state; }

  nn::LSTMLanguageModel model_;
};

}  // namespace

std::unique_ptr<TextModel> make_model(const Settings& s, std::int64_t words) {
  if (s.model == "transformer") {
    return std::make_unique<Transformer>(nn::LanguageModelConfig{.layers = s.layers,
                                                                 .heads = s.heads,
                                                                 .dim = s.dim,
                                                                 .ffn = s.ffn,
                                                                 .seq = s.seq,
                                                                 .vocab = entries(s, words),
                                                                 .dropout = s.dropout,
                                                                 .recompute_blocks = s.recompute == "blocks"});
  }
  if (s.model == "llama")
    return std::make_unique<Llama>(sizes(s.layers, s.heads, s.dim, s.ffn, s.seq, entries(s, words)));
  return std::make_unique<Recurrent>(nn::LSTMLanguageModelConfig{.layers = s.layers,
                                                                 .dim = s.dim,
                                                                 .hidden = s.hidden,
                                                                 .vocab = entries(s, words),
                                                                 .dropout_embedding = s.dropout_embedding,
                                                                 .dropout_input = s.dropout_input,
                                                                 .dropout_hidden = s.dropout_hidden,
                                                                 .dropout_output = s.dropout,
                                                                 .weight_drop = s.weight_drop,
                                                                 .activation = s.activation,
                                                                 .slowness = s.slowness});
}

std::pair<std::string, Shape> table_of(const Settings& s, std::int64_t words) {
  const char* name = s.model == "transformer" ? "model.wte.weight"
                     : s.model == "llama"     ? "model.token_embedding.weight"
                                              : "model.embedding.weight";
  return {name, {entries(s, words), s.dim}};
}

}  // namespace wikitext
