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

}  // namespace

Schedule Schedule::then(std::int64_t at, Schedule next) const {
  return Schedule(
      [first = *this, at, next = std::move(next)](std::int64_t i) { return i < at ? first(i) : next(i - at); });
}

Schedule operator*(Schedule a, Schedule b) {
  return Schedule([a = std::move(a), b = std::move(b)](std::int64_t i) { return a(i) * b(i); });
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
  const double first = 1 / o.div_factor, last = first / o.final_div_factor, steps = static_cast<double>(total);
  struct Phase {
    double end, from, to;
  };
  const double top = o.pct_start * steps - 1;
  std::vector<Phase> phases = {{top, first, 1}};
  if (o.three_phase) {
    phases.push_back({2 * top, 1, first});
    phases.push_back({steps - 1, first, last});
  } else {
    phases.push_back({steps - 1, 1, last});
  }
  return Schedule([=](std::int64_t i) {
    const double at = std::min(static_cast<double>(i), steps - 1);
    double begin = 0;
    for (const Phase& phase : phases) {
      if (at <= phase.end || phase.end == steps - 1) {
        const double done = phase.end == begin ? 1 : (at - begin) / (phase.end - begin);
        if (o.anneal == Annealing::linear) return phase.from + (phase.to - phase.from) * done;
        return phase.to + (phase.from - phase.to) / 2 * (1 + std::cos(std::numbers::pi * done));
      }
      begin = phase.end;
    }
    return last;
  });
}

Schedule cyclic(double top, CyclicOptions o) {
  require_positive(o.step_size_up, "cyclic");
  if (o.step_size_down == 0) o.step_size_down = o.step_size_up;
  require_positive(o.step_size_down, "cyclic");
  return Schedule([=](std::int64_t i) {
    const std::int64_t length = o.step_size_up + o.step_size_down, cycle = i / length, at = i % length;
    const double up = static_cast<double>(o.step_size_up), down = static_cast<double>(o.step_size_down);
    const double x = static_cast<double>(at);
    const double height = at <= o.step_size_up ? x / up : 1 - (x - up) / down;
    double scale = 1;
    if (o.mode == CyclicMode::triangular2) scale = std::pow(0.5, static_cast<double>(cycle));
    if (o.mode == CyclicMode::exp_range) scale = std::pow(o.gamma, static_cast<double>(i));
    return 1 + (top - 1) * height * scale;
  });
}

Schedule sequential(std::vector<Schedule> schedules, std::vector<std::int64_t> milestones) {
  if (schedules.size() != milestones.size() + 1 || !std::is_sorted(milestones.begin(), milestones.end())) {
    throw Error(fmt::format("sequential: {} schedules and {} milestones; wanted is one milestone fewer, rising",
                            schedules.size(), milestones.size()));
  }
  return Schedule([schedules = std::move(schedules), milestones = std::move(milestones)](std::int64_t i) {
    const auto passed = std::upper_bound(milestones.begin(), milestones.end(), i) - milestones.begin();
    const auto at = static_cast<std::size_t>(passed);
    return schedules[at](passed == 0 ? i : i - milestones[at - 1]);
  });
}

Schedule chained(std::vector<Schedule> schedules) {
  return Schedule([schedules = std::move(schedules)](std::int64_t i) {
    double product = 1;
    for (const Schedule& schedule : schedules) product *= schedule(i);
    return product;
  });
}

}  // namespace etna::optim
