#include "loss_meter.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace wikitext {

LossMeter::LossMeter(std::int64_t tokens_per_step, std::int64_t first_step, double seconds)
    : tokens_per_step_(tokens_per_step), first_step_(first_step), before_(seconds) {
  last_.step = first_step;
  last_.seconds = seconds;
}

double LossMeter::seconds() const { return before_ + std::chrono::duration<double>(Clock::now() - start_).count(); }

std::optional<Look> LossMeter::look(std::int64_t step, double lr, const etna::Tensor& loss) {
  std::optional<Look> before = take();
  asked_ = {.step = step, .lr = lr};
  loss_ = etna::read_later(loss);
  return before;
}

std::optional<Look> LossMeter::poll() { return loss_.defined() && loss_.ready() ? take() : std::nullopt; }

std::optional<Look> LossMeter::take() {
  if (!loss_.defined()) return std::nullopt;
  Look look = asked_;
  look.loss = loss_.get();
  look.seconds = seconds();
  loss_ = {};
  const double per_step =
      (look.seconds - last_.seconds) / static_cast<double>(std::max<std::int64_t>(1, look.step - last_.step));
  // The first step includes the time to load kernels.
  if (last_.step > first_step_) {
    spans_.push_back(per_step * 1e3);
    look.tokens_per_second = static_cast<double>(tokens_per_step_) / per_step;
  }
  last_ = look;
  looks_.push_back(look);
  if (!std::isfinite(look.loss))
    throw NonFiniteLoss(fmt::format("the loss at step {} is {}; try a smaller --lr", look.step, look.loss));
  return look;
}

double LossMeter::ms_per_step_median() const {
  if (spans_.empty()) return 0;
  std::vector<double> values = spans_;
  auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace wikitext
