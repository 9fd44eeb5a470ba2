#include <algorithm>
#include <cmath>
#include <numbers>

#include <fmt/format.h>

#include <etna/optim/schedule.h>
#include <etna/tensor/capture.h>

namespace etna::optim {

SWALR::SWALR(Optimizer& optimizer, double swa_lr, SWALROptions options)
    : SWALR(optimizer, std::vector<double>{swa_lr}, options) {}

SWALR::SWALR(Optimizer& optimizer, std::vector<double> swa_lr, SWALROptions options)
    : optimizer_(optimizer), swa_lr_(std::move(swa_lr)), options_(options) {
  const std::size_t groups = optimizer.groups().size();
  if (swa_lr_.size() != 1 && swa_lr_.size() != groups)
    throw Error(fmt::format("SWALR: {} rates for {} groups; give one for all or one each", swa_lr_.size(), groups));
  for (const double rate : swa_lr_) {
    if (!(rate >= 0) || std::isinf(rate))
      throw Error(fmt::format("SWALR: a rate of {}; it must be finite and not negative", rate));
  }
  if (options.anneal_epochs < 0)
    throw Error(fmt::format("SWALR: anneal_epochs is {}; it must not be negative", options.anneal_epochs));
  set_rates();
}

double SWALR::share(std::int64_t step) const {
  const double length = static_cast<double>(std::max<std::int64_t>(1, options_.anneal_epochs));
  const double done = std::clamp(static_cast<double>(step) / length, 0.0, 1.0);
  return options_.anneal_strategy == Annealing::linear ? done : (1 - std::cos(std::numbers::pi * done)) / 2;
}

void SWALR::set_rates() {
  // From the present rate: what it would have been without SWALR's last step, then with this step. So the rate may
  // change in between, and groups may be added.
  const std::int64_t now = options_.anneal_epochs == 0 ? std::max<std::int64_t>(1, step_) : step_;
  const double before = share(now - 1), after = share(now);
  for (std::size_t g = 0; g < optimizer_.groups().size(); ++g) {
    if (swa_lr_.size() > 1 && g >= swa_lr_.size())
      throw Error(fmt::format("SWALR: there is no rate for group {}; it got {}", g, swa_lr_.size()));
    const double goal = swa_lr(g), lr = optimizer_.groups()[g].lr;
    const double initial = before == 1 ? goal : (lr - before * goal) / (1 - before);
    optimizer_.set_lr(g, std::max(0.0, goal * after + initial * (1 - after)));
  }
}

void SWALR::step() {
  each_step([this] {
    ++step_;
    set_rates();
  });
}

std::vector<double> SWALR::last_lr() const {
  std::vector<double> rates;
  for (const ParamGroup& group : optimizer_.groups()) rates.push_back(group.lr);
  return rates;
}

std::map<std::string, Tensor> SWALR::state_dict() const {
  return {{"step", scalar(static_cast<double>(step_), {f64})}};
}

void SWALR::load_state_dict(const std::map<std::string, Tensor>& state) {
  if (state.size() != 1 || !state.contains("step"))
    throw Error(fmt::format("load_state_dict: SWALR wants step alone, got {} entries", state.size()));
  step_ = state.at("step").item<std::int64_t>();
}

}  // namespace etna::optim
