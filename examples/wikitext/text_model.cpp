#include "text_model.h"

#include <algorithm>

#include <fmt/format.h>

#include <etna/etna.h>

namespace wikitext {

using namespace etna;

namespace {

std::int64_t entries(const Settings& s, std::int64_t words) { return std::max(s.vocab, words); }

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

 private:
  nn::LanguageModel model_;
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
  return {s.model == "transformer" ? "model.wte.weight" : "model.embedding.weight", {entries(s, words), s.dim}};
}

}  // namespace wikitext
