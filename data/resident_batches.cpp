#include <etna/data/resident_batches.h>

#include <fmt/format.h>

#include <etna/device/error.h>
#include <etna/tensor/capture.h>
#include <etna/tensor/ops.h>

namespace etna::data {

ResidentBatches::ResidentBatches(const StreamBatches& streams, Device device)
    : position_(std::make_shared<Position>(Position{0, streams.steps(), streams.seq()})),
      tokens_(from_bytes(streams.ids().data(), {streams.batch(), streams.stream()}, i32, device)) {}

Batch ResidentBatches::next() {
  auto from = [position = position_](std::int64_t offset) {
    return [position, offset] { return position->step * position->seq + offset; };
  };
  Batch batch{window(tokens_, from(0), position_->seq), window(tokens_, from(1), position_->seq), position_->step};
  each_step([position = position_] { position->step = (position->step + 1) % position->steps; });
  return batch;
}

void ResidentBatches::seek(std::int64_t step) {
  if (step < 0 || step >= steps())
    throw ShapeError(fmt::format("resident batches: step {} is outside [0, {})", step, steps()));
  position_->step = step;
}

}  // namespace etna::data
