#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <etna/nn/containers.h>
#include <etna/nn/embedding.h>
#include <etna/nn/recurrent.h>
#include <etna/tensor/tensor.h>

namespace etna::nn {

/// Sizes and settings of an LSTMLanguageModel.
struct LSTMLanguageModelConfig {
  std::int64_t layers = 3;
  std::int64_t dim = 400;      ///< of the embedding, and of the last layer, whose output meets the embedding again
  std::int64_t hidden = 1150;  ///< of the other layers
  std::int64_t vocab = 0;
  double dropout_embedding = 0.1;  ///< of whole words
  double dropout_input = 0.65;     ///< of the embedded words, the same at every step
  double dropout_hidden = 0.3;     ///< between layers, likewise
  double dropout_output = 0.4;     ///< behind the last layer, likewise
  double weight_drop = 0.5;        ///< of the weights from step to step
  double activation = 2;           ///< times the mean square of the output is added to the loss in training ...
  double slowness = 1;             ///< ... and times that of its change from step to step
};

/// A language model of LSTMs with the regularization of AWD-LSTM (Merity et al. 2018): five kinds of dropout,
/// activation regularization, and a head that shares the embedding.
///     nn::LSTMLanguageModel::State state(model, batch, device);
///     Tensor loss = model.loss(tokens, targets, state);  // the state goes on to the next call
class LSTMLanguageModel : public Module {
 public:
  /// What the layers remember of a batch of streams. Updated in place, so that captured steps go on with it.
  class State {
   public:
    State(const LSTMLanguageModel& model, std::int64_t batch, Device device);
    /// Forgets.
    void zero();
    /// "h.0", "c.0" ...
    std::map<std::string, Tensor> state_dict() const;
    /// @throws Error for other names or shapes
    void load_state_dict(const std::map<std::string, Tensor>& state);

   private:
    friend class LSTMLanguageModel;
    std::vector<RecurrentState> layers_;
  };

  explicit LSTMLanguageModel(const LSTMLanguageModelConfig& config);
  /// @param tokens [B, T] i64 or i32 @return logits [B, T, vocab]
  Tensor forward(const Tensor& tokens, State& state) const;
  /// The head's input. @return [B, T, dim]
  Tensor hidden(const Tensor& tokens, State& state) const;
  /// Mean cross-entropy, in training with the two regularizations. @param targets [B, T], -100 at positions to ignore
  /// @return 0-d
  Tensor loss(const Tensor& tokens, const Tensor& targets, State& state) const;

  const LSTMLanguageModelConfig config;
  Embedding embedding;
  ModuleList<LSTM> layers;
  Tensor bias;  ///< of the head, [vocab]

 protected:
  std::unique_ptr<Module> another() const override;

 private:
  struct Output {
    Tensor raw, dropped;  ///< the last layer's output, [T, B, dim], and with dropout
  };
  Output run(const Tensor& tokens, State& state) const;
};

struct NeuralCacheOptions {
  std::int64_t window = 3785;  ///< words that are remembered
  double theta = 0.66;         ///< how sharply the cache prefers words whose contexts were alike
  double lambda = 0.13;        ///< the cache's share of a probability
};

/// Remembers the last words of a text and the hidden states that came before them, and adds to a model's probability of
/// a word how alike the states were before its recent occurrences (Grave et al. 2017):
///     p(w) = (1 - lambda) · softmax(logits)(w) + lambda · sum over i with w_i = w of softmax(theta · h·h_i)(i)
/// Needs no training. For evaluation: has no gradient.
class NeuralCache {
 public:
  /// @param dim of hidden states @throws Error for window < 1, lambda outside [0, 1), a theta that is not finite
  NeuralCache(std::int64_t dim, const NeuralCacheOptions& options, Device device);

  /// @param hidden [T, dim] of one text, in order, which goes on where the last call ended
  /// @param logits [T, V] @param words [T] i32 or i64, the words that follow each position
  /// @return [T], the natural logarithm of each word's probability. Words before it in the same call count already.
  Tensor log_likelihood(const Tensor& hidden, const Tensor& logits, const Tensor& words);
  /// Forgets.
  void clear();

  const NeuralCacheOptions options;

 private:
  Tensor states_;  ///< [window, dim] f32, oldest first
  Tensor words_;   ///< [window] i64; -1: none yet
};

}  // namespace etna::nn
