#include <etna/train/internal/answer_batches.h>

#include <algorithm>
#include <map>

#include <etna/data/sampler.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/attention/attention.h>

namespace etna::training {
namespace {

constexpr std::int64_t kRowMultiple = 8;  ///< positions of a row, which kernels read by vectors

/// Positions of a text in a row: its last token is foretold, and not read.
std::int64_t positions_of(const AnswerText& text) { return static_cast<std::int64_t>(text.ids.size()) - 1; }

std::int64_t rounded_up(std::int64_t count) { return (count + kRowMultiple - 1) / kRowMultiple * kRowMultiple; }

}  // namespace

AnswerBatches::AnswerBatches(const AnswerRows& rows, const AnswerBatchOptions& options)
    : rows_of_unit_(rows.kind == RowKind::preference ? 2 : 1),
      accumulation_(options.accumulation),
      shuffled_(options.shuffled),
      seed_(options.seed) {
  std::int64_t longest = 1, all = 0;
  for (const AnswerText& text : rows.texts) {
    longest = std::max(longest, positions_of(text));
    all += positions_of(text);
    answers_ += text.answers();
  }
  const bool packed = options.packed && rows_of_unit_ == 1;
  seq_ = std::max(longest, std::min(options.seq, rounded_up(packed ? std::max(all, longest) : longest)));
  pack(rows, packed);
  batch_ = std::min(options.batch, units());
}

/// Each text goes to the row with the least room that is enough for it, the longest text first (best-fit decreasing).
void AnswerBatches::pack(const AnswerRows& rows, bool packed) {
  if (!packed) {
    for (const AnswerText& text : rows.texts) rows_.push_back({&text});
    return;
  }
  std::vector<const AnswerText*> texts;
  for (const AnswerText& text : rows.texts) texts.push_back(&text);
  std::stable_sort(texts.begin(), texts.end(),
                   [](const AnswerText* a, const AnswerText* b) { return a->ids.size() > b->ids.size(); });
  std::multimap<std::int64_t, std::size_t> by_room;
  for (const AnswerText* text : texts) {
    const auto found = by_room.lower_bound(positions_of(*text));
    std::int64_t room = seq_;
    std::size_t row = rows_.size();
    if (found == by_room.end()) {
      rows_.emplace_back();
    } else {
      room = found->first;
      row = found->second;
      by_room.erase(found);
    }
    rows_[row].push_back(text);
    by_room.emplace(room - positions_of(*text), row);
    documents_ = std::max(documents_, static_cast<std::int64_t>(rows_[row].size()));
  }
}

std::int64_t AnswerBatches::pairs() const { return rows_of_unit_ == 2 ? units() : 0; }

std::int64_t AnswerBatches::steps_per_epoch() const {
  const std::int64_t of_step = batch_ * accumulation_;
  return (units() + of_step - 1) / of_step;
}

std::vector<std::int64_t> AnswerBatches::order(std::int64_t epoch) const {
  if (!shuffled_) return data::SequentialSampler(units()).indices(0);
  return data::RandomSampler(units(), seed_).indices(static_cast<std::uint64_t>(epoch));
}

void AnswerBatches::fill(const Row& row, std::int32_t number, std::int32_t* x, std::int32_t* y) const {
  std::int64_t at = 0, document = 0;
  for (const AnswerText* text : row) {
    const std::int64_t count = positions_of(*text);
    for (std::int64_t i = 0; i < count; ++i) {
      const auto k = static_cast<std::size_t>(i);
      x[at + i] = text->ids[k];
      y[at + i] = text->learned[k + 1] != 0 ? text->ids[k + 1] : kNotLearned;
    }
    x[seq_ + document++] = static_cast<std::int32_t>(count);
    at += count;
  }
  x[seq_ + documents_] = number;
}

data::Batch AnswerBatches::of_step(std::int64_t step) const {
  const std::int64_t of_step = batch_ * accumulation_, first = step % steps_per_epoch() * of_step;
  const std::vector<std::int64_t> all = order(step / steps_per_epoch());
  const std::int64_t width = seq_ + documents_ + 1, height = of_step * rows_of_unit_;
  std::vector<std::int64_t> chosen;
  std::int32_t answers = 0;
  for (std::int64_t i = first; i < first + of_step; ++i) {
    // Of pairs the mean is taken, so that there are no empty ones: the first of the epoch come again.
    if (i >= units() && rows_of_unit_ == 1) break;
    const std::int64_t unit = all[static_cast<std::size_t>(i % units())];
    for (std::int64_t k = 0; k < rows_of_unit_; ++k) {
      chosen.push_back(unit * rows_of_unit_ + k);
      for (const AnswerText* text : rows_[static_cast<std::size_t>(chosen.back())])
        answers += static_cast<std::int32_t>(text->answers());
    }
  }
  std::vector<std::int32_t> x(static_cast<std::size_t>(height * width)),
      y(static_cast<std::size_t>(height * seq_), kNotLearned);
  for (std::int64_t i = 0; i < height; ++i) {
    const bool there = i < static_cast<std::int64_t>(chosen.size());
    const std::int64_t row = there ? chosen[static_cast<std::size_t>(i)] : -1;
    const Row none, &texts = there ? rows_[static_cast<std::size_t>(row)] : none;
    const std::int32_t number = rows_of_unit_ == 1 ? answers : static_cast<std::int32_t>(row / rows_of_unit_);
    fill(texts, number, x.data() + i * width, y.data() + i * seq_);
  }
  return {from_vector(x, {height, width}), from_vector(y, {height, seq_})};
}

AnswerBatch AnswerBatches::parts(const Tensor& x, const Tensor& y) const {
  const std::int64_t end = seq_ + documents_;
  // What is behind a row's only text is not seen by it.
  const Tensor documents = documents_ > 1 ? document_bounds(x.slice(1, seq_, end), seq_) : Tensor();
  return {x.slice(1, 0, seq_), documents, y, x.select(1, end)};
}

}  // namespace etna::training
