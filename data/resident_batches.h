#pragma once

#include <cstdint>
#include <memory>

#include <etna/data/batches.h>
#include <etna/tensor/tensor.h>

namespace etna::data {

/// The batches of StreamBatches, cut on the device from tokens that were brought there once. A captured step that takes
/// its batch from here brings up nothing when it is replayed: where the batch begins is a number that the host writes
/// before each replay.
///
///     data::ResidentBatches batches(streams, device);
///     auto step = capture([&] { auto [x, y, number] = batches.next(); return train_step(x, y); });
///     while (…) step();
class ResidentBatches {
 public:
  /// Uploads i32 [batch, n], four bytes a token; the ids may go afterwards.
  ResidentBatches(const StreamBatches& streams, Device device);

  /// The batch of step(), on the device, and counts on; behind the last step comes the first. Within a captured step
  /// each replay does the same, only Batch::step stays that of the recording.
  Batch next();

  /// The step within the epoch that next(), or a replay with it, gives next.
  std::int64_t step() const { return position_->step; }
  std::int64_t steps() const { return position_->steps; }
  /// Goes on from `step`, recorded steps as well. @throws ShapeError for a step outside [0, steps)
  void seek(std::int64_t step);

 private:
  /// What recorded steps hold on to, wherever this object goes.
  struct Position {
    std::int64_t step, steps, seq;
  };
  std::shared_ptr<Position> position_;
  Tensor tokens_;  ///< [batch, n]
};

}  // namespace etna::data
