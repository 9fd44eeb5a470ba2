#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <etna/tensor/readback.h>

namespace wikitext {

/// Thrown if the loss becomes NaN or infinite.
struct NonFiniteLoss : std::exception {
  explicit NonFiniteLoss(std::string text) : text_(std::move(text)) {}
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  std::string text_;
};

/// A loss that has arrived on the host.
struct Look {
  std::int64_t step = 0;  ///< starts at 1
  double loss = 0, lr = 0;
  double seconds = 0;            ///< of training since its beginning
  double tokens_per_second = 0;  ///< since the look before; 0: not known yet
};

/// Reads the loss from time to time and measures the time between reads. A loss is requested at its step and taken once
/// it has arrived, so the GPU never idles for it.
class LossMeter {
 public:
  /// @param first_step, seconds of the part of the run that was made before
  LossMeter(std::int64_t tokens_per_step, std::int64_t first_step, double seconds);

  /// Requests the loss of a step. @return the one before, if it was not taken yet @throws NonFiniteLoss
  std::optional<Look> look(std::int64_t step, double lr, const etna::Tensor& loss);
  /// Takes the pending loss if it has arrived. @throws NonFiniteLoss
  std::optional<Look> poll();
  /// Takes the loss that is still pending, and waits for it if need be. @throws NonFiniteLoss
  std::optional<Look> take();
  /// Around work that is no training.
  void pause() { paused_from_ = Clock::now(); }
  void resume() { start_ += Clock::now() - paused_from_; }

  /// Of training, with the part made before.
  double seconds() const;
  /// Over the spans between looks, without the first steps; 0 if there is none.
  double ms_per_step_median() const;
  const std::vector<Look>& looks() const { return looks_; }

 private:
  using Clock = std::chrono::steady_clock;

  std::int64_t tokens_per_step_, first_step_;
  double before_;
  Clock::time_point start_ = Clock::now(), paused_from_;
  etna::PendingValue loss_;
  Look asked_, last_;
  std::vector<double> spans_;
  std::vector<Look> looks_;
};

}  // namespace wikitext
