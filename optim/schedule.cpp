#include <etna/optim/schedule.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numbers>

#include <fmt/format.h>

#include <etna/device/error.h>

namespace etna::optim {
namespace {

/// The fraction of `total` steps that is done, in [0, 1].
double share(std::int64_t step, std::int64_t total) {
  return std::clamp(static_cast<double>(step) / static_cast<double>(total), 0.0, 1.0);
}

void require_positive(std::int64_t steps, const char* name) {
  if (steps < 1) throw Error(fmt::format("{}: {} steps; at least one is wanted", name, steps));
}

/// A part of one_cycle(), from the end of the one before.
struct Phase {
  double end, from, to;
};

double value_in(const std::vector<Phase>& phases, Annealing anneal, std::int64_t step) {
  const double last = phases.back().end, at = std::min(static_cast<double>(step), last);
  double begin = 0;
  for (const Phase& phase : phases) {
    if (at <= phase.end || phase.end == last) {
      const double done = phase.end == begin ? 1 : (at - begin) / (phase.end - begin);
      if (anneal == Annealing::linear) return phase.from + (phase.to - phase.from) * done;
      return phase.to + (phase.from - phase.to) / 2 * (1 + std::cos(std::numbers::pi * done));
    }
    begin = phase.end;
  }
  return phases.back().to;
}

void require_momenta(const char* name, double base, double most) {
  if (!(base >= 0 && most >= 0))
    throw Error(fmt::format("{}: base_momentum {} and max_momentum {}; neither may be negative", name, base, most));
}

}  // namespace

Schedule Schedule::then(std::int64_t at, Schedule next) const {
  // Each part's momentum, or that of the other part's nearest step where it has none.
  std::function<double(std::int64_t)> momentum;
  if (has_momentum() && next.has_momentum()) {
    momentum = [first = *this, at, next](std::int64_t i) { return i < at ? first.momentum(i) : next.momentum(i - at); };
  } else if (has_momentum()) {
    momentum = [first = *this, at](std::int64_t i) { return first.momentum(std::min(i, at - 1)); };
  } else if (next.has_momentum()) {
    momentum = [at, next](std::int64_t i) { return next.momentum(std::max<std::int64_t>(i - at, 0)); };
  }
  return Schedule([first = *this, at, next](std::int64_t i) { return i < at ? first(i) : next(i - at); },
                  std::move(momentum));
}

Schedule operator*(Schedule a, Schedule b) {
  std::function<double(std::int64_t)> momentum;
  if (a.has_momentum() || b.has_momentum())
    momentum = [from = a.has_momentum() ? a : b](std::int64_t i) { return from.momentum(i); };
  return Schedule([a = std::move(a), b = std::move(b)](std::int64_t i) { return a(i) * b(i); }, std::move(momentum));
}

Schedule constant(double factor) {
  return Schedule([factor](std::int64_t) { return factor; });
}

Schedule constant(double factor, std::int64_t total) {
  return Schedule([=](std::int64_t i) { return i < total ? factor : 1.0; });
}

Schedule linear_warmup(std::int64_t steps) {
  return Schedule([steps](std::int64_t i) {
    return i + 1 >= steps ? 1.0 : static_cast<double>(i + 1) / static_cast<double>(steps);
  });
}

Schedule cosine(std::int64_t total, double floor) {
  require_positive(total, "cosine");
  return Schedule(
      [=](std::int64_t i) { return floor + (1 - floor) * 0.5 * (1 + std::cos(std::numbers::pi * share(i, total))); });
}

Schedule linear(std::int64_t total, double floor) {
  require_positive(total, "linear");
  return Schedule([=](std::int64_t i) { return 1 + (floor - 1) * share(i, total); });
}

Schedule linear(double start, double end, std::int64_t total) {
  require_positive(total, "linear");
  return Schedule([=](std::int64_t i) { return start + (end - start) * share(i, total); });
}

Schedule polynomial(std::int64_t total, double power) {
  require_positive(total, "polynomial");
  return Schedule([=](std::int64_t i) { return std::pow(1 - share(i, total), power); });
}

Schedule step_decay(std::int64_t every, double factor) {
  require_positive(every, "step_decay");
  return Schedule([=](std::int64_t i) { return std::pow(factor, static_cast<double>(i / every)); });
}

Schedule multi_step(std::vector<std::int64_t> milestones, double factor) {
  std::sort(milestones.begin(), milestones.end());
  return Schedule([=](std::int64_t i) {
    const auto passed = std::upper_bound(milestones.begin(), milestones.end(), i) - milestones.begin();
    return std::pow(factor, static_cast<double>(passed));
  });
}

Schedule exponential(double factor) {
  return Schedule([=](std::int64_t i) { return std::pow(factor, static_cast<double>(i)); });
}

Schedule multiplicative(std::function<double(std::int64_t)> f) {
  // Products so far: going on by a step costs one call.
  auto products = std::make_shared<std::vector<double>>(1, 1.0);
  return Schedule([f = std::move(f), products](std::int64_t i) {
    const auto at = static_cast<std::size_t>(std::max<std::int64_t>(i, 0));
    while (products->size() <= at)
      products->push_back(products->back() * f(static_cast<std::int64_t>(products->size())));
    return (*products)[at];
  });
}

Schedule cosine_warm_restarts(std::int64_t period, std::int64_t growth, double floor) {
  require_positive(period, "cosine_warm_restarts");
  require_positive(growth, "cosine_warm_restarts, growth");
  return Schedule([=](std::int64_t i) {
    std::int64_t length = period;
    if (growth == 1) {
      i %= period;
    } else {
      while (i >= length) i -= length, length *= growth;
    }
    return floor + (1 - floor) * 0.5 * (1 + std::cos(std::numbers::pi * share(i, length)));
  });
}

Schedule warmup_cosine(std::int64_t warmup, std::int64_t total, double floor) {
  return linear_warmup(warmup) * cosine(total, floor);
}

Schedule one_cycle(std::int64_t total, OneCycleOptions o) {
  if (total < 2 || !(o.pct_start >= 0 && o.pct_start <= 1) || !(o.div_factor > 0) || !(o.final_div_factor > 0)) {
    throw Error(
        fmt::format("one_cycle: {} steps, pct_start {}, div_factor {}, final_div_factor {}; wanted are at least "
                    "2, in [0, 1], positive, positive",
                    total, o.pct_start, o.div_factor, o.final_div_factor));
  }
  require_momenta("one_cycle", o.base_momentum, o.max_momentum);
  const double first = 1 / o.div_factor, last = first / o.final_div_factor, steps = static_cast<double>(total);
  std::vector<Phase> rate, momentum;
  const double top = o.pct_start * steps - 1;
  if (o.three_phase) {
    rate = {{top, first, 1}, {2 * top, 1, first}, {steps - 1, first, last}};
    momentum = {{top, o.max_momentum, o.base_momentum},
                {2 * top, o.base_momentum, o.max_momentum},
                {steps - 1, o.max_momentum, o.max_momentum}};
  } else {
    rate = {{top, first, 1}, {steps - 1, 1, last}};
    momentum = {{top, o.max_momentum, o.base_momentum}, {steps - 1, o.base_momentum, o.max_momentum}};
  }
  const auto along = [anneal = o.anneal](std::vector<Phase> phases) {
    return [anneal, phases = std::move(phases)](std::int64_t i) { return value_in(phases, anneal, i); };
  };
  if (!o.cycle_momentum) return Schedule(along(std::move(rate)));
  return Schedule(along(std::move(rate)), along(std::move(momentum)));
}

Schedule cyclic(double top, CyclicOptions o) {
  require_positive(o.step_size_up, "cyclic");
  if (o.step_size_down == 0) o.step_size_down = o.step_size_up;
  require_positive(o.step_size_down, "cyclic");
  require_momenta("cyclic", o.base_momentum, o.max_momentum);
  // The height over the base of the cycle, in [0, 1].
  const auto height = [=](std::int64_t i) {
    const std::int64_t length = o.step_size_up + o.step_size_down, cycle = i / length, at = i % length;
    const double up = static_cast<double>(o.step_size_up), down = static_cast<double>(o.step_size_down);
    const double x = static_cast<double>(at);
    double scale = 1;
    if (o.mode == CyclicMode::triangular2) scale = std::pow(0.5, static_cast<double>(cycle));
    if (o.mode == CyclicMode::exp_range) scale = std::pow(o.gamma, static_cast<double>(i));
    return (at <= o.step_size_up ? x / up : 1 - (x - up) / down) * scale;
  };
  const auto factor = [=](std::int64_t i) { return 1 + (top - 1) * height(i); };
  if (!o.cycle_momentum) return Schedule(factor);
  return Schedule(factor,
                  [=](std::int64_t i) { return o.max_momentum - (o.max_momentum - o.base_momentum) * height(i); });
}

Schedule sequential(std::vector<Schedule> schedules, std::vector<std::int64_t> milestones) {
  if (schedules.size() != milestones.size() + 1 || !std::is_sorted(milestones.begin(), milestones.end())) {
    throw Error(fmt::format("sequential: {} schedules and {} milestones; wanted is one milestone fewer, rising",
                            schedules.size(), milestones.size()));
  }
  // then() nested from behind: each schedule counts from its own milestone.
  Schedule all = schedules.back();
  std::int64_t end = milestones.empty() ? 0 : milestones.back();
  for (std::size_t k = milestones.size(); k-- > 0;) {
    const std::int64_t begin = k == 0 ? 0 : milestones[k - 1];
    all = schedules[k].then(end - begin, std::move(all));
    end = begin;
  }
  return all;
}

Schedule chained(std::vector<Schedule> schedules) {
  Schedule all = constant();
  for (Schedule& schedule : schedules) all = all * std::move(schedule);
  return all;
}

}  // namespace etna::optim
