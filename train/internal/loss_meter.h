#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <etna/tensor/capture.h>
#include <etna/train/runs.h>

namespace etna::training {

/// Reads the loss from time to time and measures the time between readings. A loss is requested at its step and taken
/// once it has arrived, so the GPU never idles for it.
class LossMeter {
 public:
  /// @param first_step, seconds of the part of the run that was made before
  LossMeter(std::int64_t tokens_per_step, std::int64_t first_step, double seconds);

  /// Requests the loss of a step. @return the reading before, if it was not taken yet
  std::optional<LossReading> request(std::int64_t step, double lr, const Tensor& loss);
  /// Takes the pending loss if it has arrived.
  std::optional<LossReading> poll();
  /// Takes the pending loss; blocks until it arrives.
  std::optional<LossReading> take();
  /// Around work that is no training.
  void pause() { paused_from_ = Clock::now(); }
  void resume() { start_ += Clock::now() - paused_from_; }

  /// Of training, with the part made before.
  double seconds() const;
  /// Over the spans between readings, without the first steps; 0 if there is none.
  double ms_per_step_median() const;
  const std::vector<LossReading>& readings() const { return readings_; }

 private:
  using Clock = std::chrono::steady_clock;

  std::int64_t tokens_per_step_, first_step_;
  double before_;
  Clock::time_point start_ = Clock::now(), paused_from_;
  PendingValue loss_;
  LossReading requested_, last_;
  std::vector<double> spans_;
  std::vector<LossReading> readings_;
};

}  // namespace etna::training
