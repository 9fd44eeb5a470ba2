#pragma once

#include <cstdint>
#include <string>

#include <etna/models/decoder.h>
#include <etna/train/internal/answer_batches.h>

/// Losses of fine-tuning. Internal.
namespace etna::training {

/// What a decoder learns from a file of rows.
enum class AnswerObjective : std::uint8_t {
  answers,      ///< cross-entropy of the answers' tokens
  preferences,  ///< DPO (Rafailov et al. 2023), against the model as it was before
  odds,         ///< ORPO (Hong et al. 2024)
  teacher,      ///< cross-entropy, and the divergence from a larger model's probabilities (Hinton et al. 2015)
};

struct AnswerLossOptions {
  AnswerObjective objective = AnswerObjective::answers;
  double beta = 0.1;           ///< DPO: how far the model may go from where it was; ORPO: the weight of the odds
  double teacher_share = 0.5;  ///< of the divergence in the loss
  double temperature = 2;      ///< of both models' probabilities
  const models::Decoder* teacher = nullptr;  ///< on the model's device
  std::int64_t accumulation = 1;             ///< batches that share AnswerBatch::number
};

/// The loss of one batch, 0-d. Answers of a step weigh alike: a batch has accumulation · Σ / (answers of the step), so
/// that the mean over the step's batches is the mean over its answers. Of preferences, the mean over pairs.
class AnswerLoss {
 public:
  /// @param model outlives this, as do the batches
  AnswerLoss(const models::Decoder& model, const AnswerBatches& batches, const AnswerLossOptions& options);

  /// For DPO: measures the log-probabilities of all answers by the model as it is now.
  void measure_reference(const AnswerBatches& in_order, Device device);

  Tensor operator()(const Tensor& x, const Tensor& y) const;
  /// Σ over the answers of a batch, or over its pairs, for the mean over several batches. The teacher takes no part.
  Tensor sum(const Tensor& x, const Tensor& y) const;

 private:
  Tensor of_answers(const AnswerBatch& batch) const;
  Tensor of_pairs(const AnswerBatch& batch) const;
  Tensor row_logprobs(const AnswerBatch& batch) const;
  Tensor divergence(const AnswerBatch& batch, const Tensor& logits) const;

  const models::Decoder& model_;
  const AnswerBatches& batches_;
  const AnswerLossOptions options_;
  Tensor reference_;  ///< [pairs, 2] f32: of the chosen and of the rejected answer
};

}  // namespace etna::training
