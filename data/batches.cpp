#include <etna/data/batches.h>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include <etna/data/dataset.h>
#include <etna/data/prefetcher.h>
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
  fill(step * seq_, seq_, x, y);
}

void StreamBatches::fill(std::int64_t begin, std::int64_t count, std::int32_t* x, std::int32_t* y) const {
  if (begin < 0 || count < 0 || begin >= stream_ || count >= stream_ - begin)
    throw ShapeError(fmt::format("batches: tokens [{}, {} + {}] are outside [0, {})", begin, begin, count, stream_));
  for (std::int64_t row = 0; row < batch_; ++row) {
    const std::int64_t from = row * stream_ + begin;
    read(from, count, x + row * count);
    read(from + 1, count, y + row * count);
  }
}

std::vector<StreamSpan> varied_spans(const StreamBatches& streams, std::int64_t spread, std::uint64_t seed,
                                     std::int64_t epoch) {
  constexpr std::int64_t kUnit = 8;
  if (spread < 0 || spread >= streams.seq() || spread % kUnit != 0) {
    throw ShapeError(fmt::format("varied_spans: the spread is {}; it should be a multiple of {} below {}", spread,
                                 kUnit, streams.seq()));
  }
  const std::int64_t steps = streams.steps(), seq = streams.seq(), kinds = spread / kUnit;
  // Two by two, as much longer as shorter: the sum stays.
  std::vector<std::int64_t> counts(static_cast<std::size_t>(steps), seq);
  for (std::int64_t i = 0; i + 1 < steps; i += 2) {
    const std::int64_t more = i / 2 % (kinds + 1) * kUnit;
    counts[static_cast<std::size_t>(i)] += more;
    counts[static_cast<std::size_t>(i + 1)] -= more;
  }
  Random random = Random::of_sample(seed, static_cast<std::uint64_t>(epoch), 0);
  random.shuffle(counts);
  std::int64_t begin = random.below(streams.stream() - steps * seq);
  std::vector<StreamSpan> spans;
  for (const std::int64_t count : counts) spans.push_back({std::exchange(begin, begin + count), count});
  return spans;
}

Batch make_batch(const StreamBatches& streams, std::int64_t step) {
  const Shape shape{streams.batch(), streams.seq()};
  Batch batch{empty(shape, i32), empty(shape, i32), step};
  streams.fill(step, batch.x.mutable_data<std::int32_t>(), batch.y.mutable_data<std::int32_t>());
  return batch;
}

Batch make_batch(const StreamBatches& streams, StreamSpan span, std::int64_t step) {
  const Shape shape{streams.batch(), span.count};
  Batch batch{empty(shape, i32), empty(shape, i32), step};
  streams.fill(span.begin, span.count, batch.x.mutable_data<std::int32_t>(), batch.y.mutable_data<std::int32_t>());
  return batch;
}

struct BatchLoader::Reader {
  Prefetcher<Batch> prefetcher;
};

BatchLoader::BatchLoader(const StreamBatches& streams, std::int64_t first_step, std::size_t depth)
    : reader_(new Reader{Prefetcher<Batch>(
          [streams, step = first_step]() mutable -> std::optional<Batch> {
            if (step >= streams.steps()) return std::nullopt;
            return make_batch(streams, step++);
          },
          depth)}) {}

BatchLoader::BatchLoader(const StreamBatches& streams, std::vector<StreamSpan> spans, std::int64_t first_step,
                         std::size_t depth)
    : reader_(new Reader{Prefetcher<Batch>(
          [streams, spans = std::move(spans), step = first_step]() mutable -> std::optional<Batch> {
            if (step >= static_cast<std::int64_t>(spans.size())) return std::nullopt;
            const StreamSpan span = spans[static_cast<std::size_t>(step)];
            return make_batch(streams, span, step++);
          },
          depth)}) {}

BatchLoader::BatchLoader(BatchLoader&&) noexcept = default;
BatchLoader::~BatchLoader() = default;

std::optional<Batch> BatchLoader::next() { return reader_->prefetcher.next(); }

BatchLoader::Iterator::Iterator(BatchLoader& loader) : loader_(&loader) { ++*this; }

BatchLoader::Iterator& BatchLoader::Iterator::operator++() {
  std::optional<Batch> next = loader_->next();
  ended_ = !next.has_value();
  batch_ = next ? std::move(*next) : Batch();
  return *this;
}

}  // namespace etna::data
