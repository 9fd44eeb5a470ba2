#include <etna/data/batches.h>

#include <fmt/format.h>

#include <algorithm>

#include <etna/device/error.h>

namespace etna::data {

void StreamBatches::cut(std::int64_t tokens) {
  if (batch_ < 1 || seq_ < 1)
    throw ShapeError(fmt::format("batches: batch {} and sequence length {} must both be at least 1", batch_, seq_));
  stream_ = tokens / batch_;
  // Compares without adding, so that no sequence length overflows.
  if (stream_ - 1 < seq_)
    throw FormatError(
        fmt::format("batches: {} tokens give {} streams of {}, and one step of sequence length {} needs {} "
                    "tokens a stream; use a longer text, a smaller batch or a shorter sequence",
                    tokens, batch_, stream_, seq_, static_cast<std::uint64_t>(seq_) + 1));
}

StreamBatches::StreamBatches(std::span<const std::int32_t> ids, std::int64_t batch, std::int64_t seq)
    : ids_(ids), batch_(batch), seq_(seq) {
  cut(static_cast<std::int64_t>(ids.size()));
}

StreamBatches::StreamBatches(const TokenFile& file, std::int64_t batch, std::int64_t seq)
    : file_(file), batch_(batch), seq_(seq) {
  cut(file.size());
}

std::span<const std::int32_t> StreamBatches::ids() const {
  if (file_) throw FormatError("batches: the ids of a token file are not in memory; use read()");
  return ids_.first(static_cast<std::size_t>(batch_ * stream_));
}

void StreamBatches::read(std::int64_t begin, std::int64_t count, std::int32_t* out) const {
  if (begin < 0 || count < 0 || begin > batch_ * stream_ || count > batch_ * stream_ - begin)
    throw ShapeError(
        fmt::format("batches: tokens [{}, {} + {}) are outside [0, {})", begin, begin, count, batch_ * stream_));
  if (file_)
    file_->ids(begin, count, out);
  else
    std::copy_n(ids_.data() + begin, count, out);
}

void StreamBatches::fill(std::int64_t step, std::int32_t* x, std::int32_t* y) const {
  if (step < 0 || step >= steps()) throw ShapeError(fmt::format("batches: step {} is outside [0, {})", step, steps()));
  for (std::int64_t row = 0; row < batch_; ++row) {
    const std::int64_t from = row * stream_ + step * seq_;
    read(from, seq_, x + row * seq_);
    read(from + 1, seq_, y + row * seq_);
  }
}

Batch make_batch(const StreamBatches& streams, std::int64_t step) {
  const Shape shape{streams.batch(), streams.seq()};
  Batch batch{empty(shape, i32), empty(shape, i32), step};
  streams.fill(step, batch.x.mutable_data<std::int32_t>(), batch.y.mutable_data<std::int32_t>());
  return batch;
}

BatchLoader::BatchLoader(const StreamBatches& streams, std::int64_t first_step, std::size_t depth)
    : prefetcher_(
          [streams, step = first_step]() mutable -> std::optional<Batch> {
            if (step >= streams.steps()) return std::nullopt;
            return make_batch(streams, step++);
          },
          depth) {}

}  // namespace etna::data
