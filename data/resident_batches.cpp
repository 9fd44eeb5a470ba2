#include <etna/data/batches.h>

#include <cstring>

#include <fmt/format.h>

#include <etna/device/error.h>
#include <etna/tensor/capture.h>
#include <etna/tensor/ops.h>

namespace etna::data {

namespace {

Tensor upload(const StreamBatches& streams, Device device) {
  const MemoryScope scope(MemoryUse::data);
  const Shape shape{streams.batch(), streams.stream()};
  if (streams.in_memory()) return from_bytes(streams.ids().data(), shape, i32, device);
  Tensor tokens = empty(shape, i32);
  streams.read(0, tokens.numel(), tokens.mutable_data<std::int32_t>());
  return tokens.to(device);
}

}  // namespace

ResidentBatches::ResidentBatches(const StreamBatches& streams, Device device)
    : position_(std::make_shared<Position>(Position{0, streams.steps(), streams.seq()})),
      tokens_(upload(streams, device)) {}

Batch ResidentBatches::next() {
  const Tensor starts = detail::each_step_tensor({2}, {i64, tokens_.device()}, [position = position_](std::byte* to) {
    const std::int64_t first = position->step * position->seq, values[] = {first, first + 1};
    std::memcpy(to, values, sizeof(values));
  });
  const std::int64_t seq = position_->seq;
  Batch batch{dynamic_slice(tokens_, 1, starts.select(0, 0), seq), dynamic_slice(tokens_, 1, starts.select(0, 1), seq),
              position_->step};
  each_step([position = position_] { position->step = (position->step + 1) % position->steps; });
  return batch;
}

void ResidentBatches::seek(std::int64_t step) {
  if (step < 0 || step >= steps())
    throw ShapeError(fmt::format("resident batches: step {} is outside [0, {})", step, steps()));
  position_->step = step;
}

}  // namespace etna::data
