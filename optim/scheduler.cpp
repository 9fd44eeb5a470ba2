#include <fmt/format.h>

#include <etna/optim/schedule.h>
#include <etna/tensor/capture.h>

namespace etna::optim {

Scheduler::Scheduler(Optimizer& optimizer, Schedule schedule) : optimizer_(optimizer), schedule_(std::move(schedule)) {
  if (schedule_.has_momentum() && !optimizer.has_momentum()) {
    throw Error(
        "Scheduler: the schedule sets a momentum, and the optimizer has neither momentum nor betas; choose "
        "cycle_momentum = false");
  }
  set_step(0);
}

void Scheduler::step() {
  each_step([this] { set_step(step_ + 1); });
}

void Scheduler::find_groups() {
  const std::vector<ParamGroup>& groups = optimizer_.groups();
  while (initial_.size() < groups.size()) initial_.push_back(groups[initial_.size()].lr);
}

void Scheduler::set_step(std::int64_t step) {
  find_groups();
  step_ = step;
  double factor = schedule_(step);
  for (std::size_t i = 0; i < initial_.size(); ++i) {
    optimizer_.set_lr(i, initial_[i] * factor);
    if (schedule_.has_momentum()) optimizer_.set_momentum(i, schedule_.momentum(step));
  }
}

std::vector<double> Scheduler::last_lr() const {
  std::vector<double> rates;
  for (const ParamGroup& group : optimizer_.groups()) rates.push_back(group.lr);
  return rates;
}

std::map<std::string, Tensor> Scheduler::state_dict() const {
  std::map<std::string, Tensor> state = {{"step", scalar(static_cast<double>(step_), {f64})}};
  for (std::size_t i = 0; i < initial_.size(); ++i) state[fmt::format("initial.{}", i)] = scalar(initial_[i], {f64});
  return state;
}

void Scheduler::load_state_dict(const std::map<std::string, Tensor>& state) {
  std::vector<double> initial;
  while (true) {
    const auto found = state.find(fmt::format("initial.{}", initial.size()));
    if (found == state.end()) break;
    initial.push_back(found->second.item<double>());
  }
  if (!state.contains("step") || state.size() != initial.size() + 1 || initial.size() > optimizer_.groups().size()) {
    throw Error(
        fmt::format("load_state_dict: the scheduler wants step and initial.0 ... for at most {} groups, got {} entries",
                    optimizer_.groups().size(), state.size()));
  }
  const auto step = state.at("step").item<std::int64_t>();
  initial_ = std::move(initial);
  set_step(step);
}

}  // namespace etna::optim
