#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include <etna/models/decoder_config.h>
#include <etna/nn/module.h>

#include "settings.h"

namespace wikitext {

/// A language model as this program uses it: a transformer, which sees each batch by itself, or an LSTM, which goes on
/// where the last batch of the same streams ended.
class TextModel {
 public:
  /// What a model remembers of the batches of some streams: nothing, if it is a transformer.
  class Memory {
   public:
    virtual ~Memory() = default;
    virtual void clear() {}
    virtual std::map<std::string, etna::Tensor> state_dict() const { return {}; }
    virtual void load_state_dict(const std::map<std::string, etna::Tensor>&) {}
  };

  virtual ~TextModel() = default;
  virtual etna::nn::Module& module() = 0;
  const etna::nn::Module& module() const { return const_cast<TextModel*>(this)->module(); }
  virtual bool remembers() const = 0;
  /// @param batch streams
  virtual std::unique_ptr<Memory> memory(std::int64_t batch, etna::Device device) const = 0;

  /// What training minimizes; in eval mode the mean cross-entropy. @param x, y i32 [B, T] @return 0-d
  virtual etna::Tensor loss(const etna::Tensor& x, const etna::Tensor& y, Memory& memory) const = 0;
  /// What head() takes. @param x i32 [B, T] @return [B, T, dim]
  virtual etna::Tensor hidden(const etna::Tensor& x, Memory& memory) const = 0;
  /// @param hidden [..., dim] @return logits [..., words]
  virtual etna::Tensor head(const etna::Tensor& hidden) const = 0;

  virtual std::int64_t words() const = 0;
  virtual std::int64_t dim() const = 0;  ///< of hidden()
  virtual std::string describe() const = 0;
  /// The model as one that models::Generator runs; nothing for an LSTM.
  virtual std::optional<etna::models::DecoderConfig> decoder_config() const { return std::nullopt; }
};

/// A new model. @param words of the corpus
std::unique_ptr<TextModel> make_model(const Settings& settings, std::int64_t words);
/// Its table of embedded words in a checkpoint: "model.wte.weight", and the shape that it should have.
std::pair<std::string, etna::Shape> table_of(const Settings& settings, std::int64_t words);

}  // namespace wikitext
