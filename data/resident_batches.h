#pragma once

#include <cstdint>
#include <memory>

#include <etna/data/batches.h>
#include <etna/tensor/tensor.h>

namespace etna::data {

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

}  // namespace etna::data
