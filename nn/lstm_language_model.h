#pragma once

#include <map>
#include <string>
#include <vector>

#include <etna/nn/embedding.h>
#include <etna/nn/module_list.h>
#include <etna/nn/recurrent.h>

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

}  // namespace etna::nn
