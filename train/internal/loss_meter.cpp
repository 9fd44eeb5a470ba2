#include <etna/train/internal/loss_meter.h>

#include <algorithm>

namespace etna::training {

LossMeter::LossMeter(std::int64_t tokens_per_step, std::int64_t first_step, double seconds)
    : tokens_per_step_(tokens_per_step), first_step_(first_step), before_(seconds) {
  last_.step = first_step;
  last_.seconds = seconds;
}

double LossMeter::seconds() const { return before_ + std::chrono::duration<double>(Clock::now() - start_).count(); }

std::optional<LossReading> LossMeter::request(std::int64_t step, double lr, const Tensor& loss) {
  std::optional<LossReading> before = take();
  requested_ = {.step = step, .lr = lr};
  loss_ = read_later(loss);
  return before;
}

std::optional<LossReading> LossMeter::poll() { return loss_.defined() && loss_.ready() ? take() : std::nullopt; }

std::optional<LossReading> LossMeter::take() {
  if (!loss_.defined()) return std::nullopt;
  LossReading reading = requested_;
  reading.loss = loss_.get();
  reading.seconds = seconds();
  loss_ = {};
  const double per_step =
      (reading.seconds - last_.seconds) / static_cast<double>(std::max<std::int64_t>(1, reading.step - last_.step));
  // The first step includes the time to load kernels.
  if (last_.step > first_step_) {
    spans_.push_back(per_step * 1e3);
    reading.tokens_per_second = static_cast<double>(tokens_per_step_) / per_step;
  }
  last_ = reading;
  readings_.push_back(reading);
  return reading;
}

double LossMeter::ms_per_step_median() const {
  if (spans_.empty()) return 0;
  std::vector<double> values = spans_;
  auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace etna::training
