#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <etna/data/batches.h>
#include <etna/tensor/tensor.h>
#include <etna/train/internal/answer_rows.h>

/// Texts with answers, packed into batches of one shape. Internal.
namespace etna::training {

/// Of AnswerBatch::targets, where nothing is learned.
inline constexpr std::int32_t kNotLearned = -100;

struct AnswerBatchOptions {
  std::int64_t batch = 8, accumulation = 1;  ///< rows of a batch, or pairs of preferences; batches of a step
  std::int64_t seq = 1024;                   ///< positions of a row at most
  bool packed = true;                        ///< several short texts share a row
  bool shuffled = true;                      ///< another order in each epoch; else that of the file
  std::uint64_t seed = 1;
};

/// What the model reads and foretells in a batch; a captured step takes it from x.
struct AnswerBatch {
  Tensor tokens;     ///< [B, seq] i32
  Tensor documents;  ///< of document_bounds(); undefined where no row has several texts
  Tensor targets;    ///< [B, seq] i32, or kNotLearned
  Tensor number;     ///< [B] i32: of texts the answers of the whole step, of preferences the pair's index
};

/// Texts in rows of one length, all of them once an epoch. Which texts share a row is the same in all epochs. Every
/// batch is a pure function of its step, so that a run may go on anywhere.
class AnswerBatches {
 public:
  /// @param rows with at least one text, none with more than seq + 1 tokens
  AnswerBatches(const AnswerRows& rows, const AnswerBatchOptions& options);

  std::int64_t seq() const { return seq_; }
  std::int64_t batch() const { return batch_; }  ///< options.batch, or fewer where there are fewer
  std::int64_t pairs() const;                    ///< of preferences
  std::int64_t steps_per_epoch() const;
  std::int64_t tokens_per_step() const { return batch_ * accumulation_ * rows_of_unit_ * seq_; }
  std::int64_t answers() const { return answers_; }  ///< learned tokens of an epoch

  /// The batches of a step, one below the other. x holds tokens, the texts' lengths and AnswerBatch::number.
  data::Batch of_step(std::int64_t step) const;
  /// The parts of one of them. @param x, y on any device
  AnswerBatch parts(const Tensor& x, const Tensor& y) const;

 private:
  /// Texts that share a row.
  using Row = std::vector<const AnswerText*>;
  void pack(const AnswerRows& rows, bool packed);
  std::vector<std::int64_t> order(std::int64_t epoch) const;
  void fill(const Row& row, std::int32_t number, std::int32_t* x, std::int32_t* y) const;
  std::int64_t units() const { return static_cast<std::int64_t>(rows_.size()) / rows_of_unit_; }

  std::vector<Row> rows_;
  std::int64_t rows_of_unit_, batch_, accumulation_, seq_ = 0, documents_ = 1, answers_ = 0;
  bool shuffled_;
  std::uint64_t seed_;
};

}  // namespace etna::training
