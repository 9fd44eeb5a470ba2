#include <etna/data/batches.h>

#include <fmt/format.h>

#include <algorithm>

#include <etna/device/error.h>

namespace etna::data {

StreamBatches::StreamBatches(std::span<const std::int32_t> ids, std::int64_t batch, std::int64_t seq)
    : ids_(ids), batch_(batch), seq_(seq), stream_(0) {
  if (batch < 1 || seq < 1)
    throw ShapeError(fmt::format("batches: batch {} and sequence length {} must both be at least 1", batch, seq));
  const auto tokens = static_cast<std::int64_t>(ids.size());
  stream_ = tokens / batch;
  // Compares without adding, so that no sequence length overflows.
  if (stream_ - 1 < seq)
    throw FormatError(
        fmt::format("batches: {} tokens give {} streams of {}, and one step of sequence length {} needs {} "
                    "tokens a stream; use a longer text, a smaller batch or a shorter sequence",
                    tokens, batch, stream_, seq, static_cast<std::uint64_t>(seq) + 1));
}

void StreamBatches::fill(std::int64_t step, std::int32_t* x, std::int32_t* y) const {
  if (step < 0 || step >= steps()) throw ShapeError(fmt::format("batches: step {} is outside [0, {})", step, steps()));
  for (std::int64_t row = 0; row < batch_; ++row) {
    const std::int32_t* from = ids_.data() + row * stream_ + step * seq_;
    std::copy_n(from, seq_, x + row * seq_);
    std::copy_n(from + 1, seq_, y + row * seq_);
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
