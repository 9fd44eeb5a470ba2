#include <etna/optim/schedule.h>

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include <etna/tensor/capture.h>

namespace etna::optim {

ReduceLROnPlateau::ReduceLROnPlateau(Optimizer& optimizer, PlateauOptions options)
    : optimizer_(optimizer),
      options_(options),
      best_((options.maximize ? -1 : 1) * std::numeric_limits<double>::infinity()) {
  if (!(options.factor > 0 && options.factor < 1) || options.patience < 0 || options.cooldown < 0 ||
      !(options.min_lr >= 0)) {
    throw Error(
        fmt::format("ReduceLROnPlateau: factor {}, patience {}, cooldown {}, min_lr {}; wanted are in (0, 1) and not "
                    "negative",
                    options.factor, options.patience, options.cooldown, options.min_lr));
  }
}

bool ReduceLROnPlateau::better(double metric) const {
  const double margin = options_.threshold;
  if (options_.maximize) return metric > (options_.relative ? best_ * (1 + margin) : best_ + margin);
  return metric < (options_.relative ? best_ * (1 - margin) : best_ - margin);
}

void ReduceLROnPlateau::step(double metric) {
  if (capturing())
    throw Error("ReduceLROnPlateau: its metric is a number on the host; call step() outside the captured step");
  if (better(metric)) {
    best_ = metric, bad_steps_ = 0;
  } else {
    ++bad_steps_;
  }
  if (cooldown_left_ > 0) --cooldown_left_, bad_steps_ = 0;
  if (bad_steps_ <= options_.patience) return;
  for (std::size_t i = 0; i < optimizer_.groups().size(); ++i) {
    const double lr = optimizer_.groups()[i].lr, lower = std::max(lr * options_.factor, options_.min_lr);
    if (lr - lower > options_.eps) optimizer_.set_lr(i, lower);
  }
  cooldown_left_ = options_.cooldown, bad_steps_ = 0;
}

std::map<std::string, Tensor> ReduceLROnPlateau::state_dict() const {
  return {{"best", scalar(best_, {f64})},
          {"bad_steps", scalar(static_cast<double>(bad_steps_), {f64})},
          {"cooldown_left", scalar(static_cast<double>(cooldown_left_), {f64})}};
}

void ReduceLROnPlateau::load_state_dict(const std::map<std::string, Tensor>& state) {
  for (const char* name : {"best", "bad_steps", "cooldown_left"}) {
    if (!state.contains(name) || state.size() != 3) {
      throw Error(fmt::format(
          "load_state_dict: ReduceLROnPlateau wants best, bad_steps and cooldown_left, got {} entries", state.size()));
    }
  }
  best_ = state.at("best").item<double>();
  bad_steps_ = state.at("bad_steps").item<std::int64_t>();
  cooldown_left_ = state.at("cooldown_left").item<std::int64_t>();
}

}  // namespace etna::optim
