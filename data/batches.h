#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <etna/data/token_file.h>
#include <etna/device/owned.h>
#include <etna/tensor/tensor.h>

namespace etna::data {

/// Cuts a corpus into `batch` contiguous streams of n = len / batch tokens. Step i reads tokens [i·seq, i·seq + seq] of
/// every stream: x is all but the last, y all but the first. No shuffling: each stream continues where the previous
/// step ended. Keeps a reference to the ids, or the file open.
class StreamBatches {
 public:
  /// @throws ShapeError if batch or seq is below 1; FormatError for a corpus too short for one step
  StreamBatches(std::span<const std::int32_t> ids, std::int64_t batch, std::int64_t seq);
  /// Reads the ids from the file at each step, so that a corpus larger than memory can be trained on.
  StreamBatches(const TokenFile& file, std::int64_t batch, std::int64_t seq);

  std::int64_t batch() const { return batch_; }
  std::int64_t seq() const { return seq_; }
  /// Tokens per stream, n.
  std::int64_t stream() const { return stream_; }
  /// The tokens of all streams, one stream after the other: [batch, n]. Excludes the remainder at the end of the
  /// corpus. @throws FormatError for those of a file; read() gives both kinds
  std::span<const std::int32_t> ids() const;
  bool in_memory() const { return !file_; }
  /// Writes `count` of the same tokens from `begin` on to `out`. @throws ShapeError outside [0, batch·n)
  void read(std::int64_t begin, std::int64_t count, std::int32_t* out) const;
  /// Steps per epoch: (n - 1) / seq.
  std::int64_t steps() const { return (stream_ - 1) / seq_; }
  std::int64_t tokens_per_step() const { return batch_ * seq_; }

  /// Writes batch·seq ids each to x and y, row by row. @throws ShapeError for a step outside [0, steps).
  void fill(std::int64_t step, std::int32_t* x, std::int32_t* y) const;
  /// Writes batch·count ids each, from `begin` of each stream. @throws ShapeError outside [0, n)
  void fill(std::int64_t begin, std::int64_t count, std::int32_t* x, std::int32_t* y) const;

 private:
  void cut(std::int64_t tokens);

  std::span<const std::int32_t> ids_;
  std::optional<TokenFile> file_;
  std::int64_t batch_, seq_, stream_ = 0;
};

/// Where the sequences of a step lie in each stream.
struct StreamSpan {
  std::int64_t begin, count;
};

/// The steps of an epoch with sequences of varied lengths, so that each epoch cuts the streams elsewhere (Merity et al.
/// 2018): there are as many steps as without, of seq ± spread tokens. Lengths are few, and each epoch has the same ones
/// in another order, since a captured step is recorded once for each.
/// @param spread a multiple of 8 below seq; 0: all lengths are alike, and only the beginning varies
/// @throws ShapeError for another spread
std::vector<StreamSpan> varied_spans(const StreamBatches& streams, std::int64_t spread, std::uint64_t seed,
                                     std::int64_t epoch);

/// Inputs and the tokens that follow them, i32 [batch, seq].
struct Batch {
  Tensor x, y;
  std::int64_t step = 0;  ///< within the epoch

  Batch to(Device device) const { return {x.to(device), y.to(device), step}; }
};

/// The batch of one step, on the CPU.
Batch make_batch(const StreamBatches& streams, std::int64_t step);
/// The batch of a span; `step` is only told on.
Batch make_batch(const StreamBatches& streams, StreamSpan span, std::int64_t step);

/// The batches of one epoch, on the CPU, prepared ahead of time by a thread:
///
///     for (const Batch& batch : BatchLoader(streams)) { auto [x, y, step] = batch.to(device); … }
///
/// The ids behind `streams` must outlive it.
class BatchLoader {
 public:
  explicit BatchLoader(const StreamBatches& streams, std::int64_t first_step = 0, std::size_t depth = 4);
  /// The batches of these spans.
  BatchLoader(const StreamBatches& streams, std::vector<StreamSpan> spans, std::int64_t first_step = 0,
              std::size_t depth = 4);

  BatchLoader(BatchLoader&&) noexcept;
  ~BatchLoader();

  /// Empty after the last step.
  std::optional<Batch> next();

  struct End {};
  class Iterator {
   public:
    explicit Iterator(BatchLoader& loader);
    const Batch& operator*() const { return batch_; }
    const Batch* operator->() const { return &batch_; }
    Iterator& operator++();
    bool operator==(End) const { return ended_; }

   private:
    BatchLoader* loader_;
    Batch batch_;
    bool ended_ = false;
  };
  Iterator begin() { return Iterator(*this); }
  End end() const { return {}; }

 private:
  struct Reader;
  Owned<Reader> reader_;
};

/// The batches of StreamBatches, sliced on the device from tokens uploaded once. A replayed step uploads no tokens:
/// before each replay the host writes only the number at which the batch begins.
///
///     data::ResidentBatches batches(streams, device);
///     auto step = capture([&] { auto [x, y, number] = batches.next(); return train_step(x, y); });
///     while (…) step();
class ResidentBatches {
 public:
  /// Uploads i32 [batch, n], four bytes a token; the ids are not needed afterwards.
  ResidentBatches(const StreamBatches& streams, Device device);

  /// The batch of step(), on the device; then advances. After the last step comes the first. In a captured step every
  /// replay does the same, but Batch::step keeps its value from the recording.
  Batch next();

  /// The step within the epoch that the next call of next(), or the next replay, uses.
  std::int64_t step() const { return position_->step; }
  std::int64_t steps() const { return position_->steps; }
  /// Continues from `step`; recorded steps do too. @throws ShapeError for a step outside [0, steps)
  void seek(std::int64_t step);

 private:
  /// Shared with recorded steps, so that it survives a move of this object.
  struct Position {
    std::int64_t step, steps, seq;
  };
  std::shared_ptr<Position> position_;
  Tensor tokens_;  ///< [batch, n]
};

/// Where a run of a document's tokens lies in a packed sequence.
struct PackedRun {
  std::int64_t document;  ///< index of the document
  std::int64_t begin;     ///< the first token within the document
  std::int64_t count;
  std::int64_t at;         ///< the first position within the sequence
  bool end_token = false;  ///< the last of the `count` is the end token
};

/// Documents placed in sequences of one length.
struct Packing {
  std::int64_t seq = 0;
  std::vector<std::vector<PackedRun>> sequences;
  /// Follows the last token of every document, if there is one.
  std::optional<std::int32_t> end_token = {};

  /// Tokens, end tokens among them, over positions of all sequences; 1 for no sequences.
  double efficiency() const;
  /// Writes sequence `index`: `ids` gets its tokens, then `padding`; `documents` the index of each position's document,
  /// -1 for padding, so that attention can be masked to positions of the same document. Both hold seq elements.
  /// @throws ShapeError for an index, a document or a size that does not fit
  void fill(std::int64_t index, std::span<const std::span<const std::int32_t>> texts, std::int32_t padding,
            std::span<std::int32_t> ids, std::span<std::int32_t> documents) const;
};

/// Places documents by best fit, longest first: each goes where it leaves the least room. A document longer than `seq`
/// is first cut into full sequences and a rest; empty ones are left out. O(n log n), and the same for the same lengths.
/// @throws ShapeError for seq < 1 or a negative length
Packing pack_best_fit(std::span<const std::int64_t> lengths, std::int64_t seq);

/// What becomes of the tokens at the end that fill no sequence.
enum class Remainder { drop, pad };

/// Joins documents in order, each followed by the end token, and cuts the result into full sequences, wherever that is
/// within a document. Empty documents are left out. O(n), and no position is padded, but for those of
/// a last sequence with Remainder::pad.
/// @throws ShapeError for seq < 1 or a negative length
Packing pack_concatenated(std::span<const std::int64_t> lengths, std::int64_t seq, std::int32_t end_token,
                          Remainder remainder = Remainder::drop);

}  // namespace etna::data
