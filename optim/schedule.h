#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <etna/optim/optimizer.h>

namespace etna::optim {

/// The factor of a learning rate at step i = 0, 1, 2 ..., and the momentum, if the schedule has one. Combine schedules
/// with * and then().
class Schedule {
 public:
  /// @param momentum itself, not a factor; empty: the momentum stays
  Schedule(std::function<double(std::int64_t step)> factor, std::function<double(std::int64_t step)> momentum = {})
      : factor_(std::move(factor)), momentum_(std::move(momentum)) {}
  double operator()(std::int64_t step) const { return factor_(step); }
  /// Whether the schedule also sets the momentum.
  bool has_momentum() const { return momentum_ != nullptr; }
  double momentum(std::int64_t step) const { return momentum_(step); }

  /// `next` takes over from step `at` on, and counts from there.
  Schedule then(std::int64_t at, Schedule next) const;
  friend Schedule operator*(Schedule a, Schedule b);

 private:
  std::function<double(std::int64_t)> factor_, momentum_;
};

// A group's own rate is the rate that it was given. PyTorch's schedules that take absolute rates (eta_min, max_lr,
// base_lr) are given here as fractions or multiples of it. Past its end a schedule keeps its last value.

/// `factor` at every step.
Schedule constant(double factor = 1);
/// `factor` for `total` steps, then 1: ConstantLR.
Schedule constant(double factor, std::int64_t total);
/// min(1, (i + 1) / steps)
Schedule linear_warmup(std::int64_t steps);
/// From 1 to `floor` in `total` steps in a straight line, then `floor`.
Schedule linear(std::int64_t total, double floor = 0);
/// From `start` to `end` in `total` steps in a straight line: LinearLR.
Schedule linear(double start, double end, std::int64_t total);
/// (1 - i/total)^power, then 0: PolynomialLR.
Schedule polynomial(std::int64_t total, double power = 1);
/// factor^⌊i / every⌋: StepLR.
Schedule step_decay(std::int64_t every, double factor = 0.1);
/// factor^n after n of the milestones, in any order: MultiStepLR.
Schedule multi_step(std::vector<std::int64_t> milestones, double factor = 0.1);
/// factorⁱ: ExponentialLR.
Schedule exponential(double factor);
/// f(1) · f(2) · ... · f(i): MultiplicativeLR. f is called once for each step.
Schedule multiplicative(std::function<double(std::int64_t step)> f);
/// From 1 down to `floor` in `total` steps by half a cosine (Loshchilov & Hutter 2017), then `floor`:
/// floor + (1 - floor) · (1 + cos(π · i/total)) / 2. CosineAnnealingLR, which would rise again past `total`.
Schedule cosine(std::int64_t total, double floor = 0);
/// The same again and again; each period is `growth` times as long as the one before: CosineAnnealingWarmRestarts.
Schedule cosine_warm_restarts(std::int64_t period, std::int64_t growth = 1, double floor = 0);
/// linear_warmup(warmup) * cosine(total, floor)
Schedule warmup_cosine(std::int64_t warmup, std::int64_t total, double floor = 0);

/// The form of one_cycle()'s rise and fall.
enum class Annealing { cosine, linear };
struct OneCycleOptions {
  double pct_start = 0.3;  ///< share of the steps that the rate rises
  Annealing anneal = Annealing::cosine;
  double div_factor = 25;         ///< the first rate is 1 / div_factor
  double final_div_factor = 1e4;  ///< the last rate is the first one / final_div_factor
  bool three_phase = false;       ///< first falls back to the first rate, as long as it rose
  bool cycle_momentum = true;     ///< the momentum falls as the rate rises; for optimizers that have one
  double base_momentum = 0.85, max_momentum = 0.95;
};
/// Up to the group's own rate and down again once (Smith & Topin 2018): OneCycleLR with max_lr the group's own rate.
/// @param total number of steps, at least 2
Schedule one_cycle(std::int64_t total, OneCycleOptions options = {});

/// How the height of cyclic() changes from cycle to cycle.
enum class CyclicMode { triangular, triangular2, exp_range };
struct CyclicOptions {
  std::int64_t step_size_up = 2000;
  std::int64_t step_size_down = 0;           ///< 0: as up
  CyclicMode mode = CyclicMode::triangular;  ///< triangular2 halves the height each cycle; exp_range scales by gammaⁱ
  double gamma = 1;
  bool cycle_momentum = true;  ///< the momentum falls as the rate rises; for optimizers that have one
  double base_momentum = 0.8, max_momentum = 0.9;
};
/// Between 1 and `top` in straight lines, again and again (Smith 2017): CyclicLR with base_lr the group's own rate and
/// max_lr = top · base_lr.
Schedule cyclic(double top, CyclicOptions options = {});

/// Each schedule up to its milestone, then the next one from its own step 0: SequentialLR.
/// @throws Error unless there is one milestone fewer than schedules, and they rise
Schedule sequential(std::vector<Schedule> schedules, std::vector<std::int64_t> milestones);
/// The product of all: ChainedScheduler.
Schedule chained(std::vector<Schedule> schedules);

/// Sets each group's learning rate to its own rate times the schedule, and its momentum (beta1 of optimizers with
/// betas) to the schedule's, if that has one. The own rate is the group's rate when the
/// scheduler was made; for a group added later, its rate at the scheduler's next step. An optimizer has one scheduler:
/// combine schedules instead of schedulers.
///     optim::Scheduler scheduler(optimizer, optim::warmup_cosine(100, total, 0.1));
///     for (...) { ...; optimizer.step(); scheduler.step(); }
class Scheduler {
 public:
  /// Sets the rates of step 0. The optimizer must outlive the scheduler.
  /// @throws Error for a schedule with a momentum if the optimizer has none: choose cycle_momentum = false
  Scheduler(Optimizer& optimizer, Schedule schedule);
  /// Sets the rates of the next step; inside a captured step, at every replay.
  void step();
  /// Sets the rates of the given step, to resume a run.
  void set_step(std::int64_t step);
  std::int64_t current_step() const { return step_; }
  /// The rates of the last step, one for each group.
  std::vector<double> last_lr() const;

  /// "step" and "initial.0", "initial.1" ...: the step and the groups' own rates, f64 on the CPU.
  std::map<std::string, Tensor> state_dict() const;
  /// Also sets the rates of that step. If anything is wrong, nothing changes.
  /// @throws Error unless the names are those of state_dict() for this optimizer's groups
  void load_state_dict(const std::map<std::string, Tensor>& state);

 private:
  void find_groups();

  Optimizer& optimizer_;
  Schedule schedule_;
  std::vector<double> initial_;
  std::int64_t step_ = 0;
};

// Schedulers under PyTorch's names, with its arguments in its order.

/// Scheduler(optimizer, step_decay(step_size, gamma))
struct StepLR : Scheduler {
  StepLR(Optimizer& optimizer, std::int64_t step_size, double gamma = 0.1)
      : Scheduler(optimizer, step_decay(step_size, gamma)) {}
};
/// Scheduler(optimizer, multi_step(milestones, gamma))
struct MultiStepLR : Scheduler {
  MultiStepLR(Optimizer& optimizer, std::vector<std::int64_t> milestones, double gamma = 0.1)
      : Scheduler(optimizer, multi_step(std::move(milestones), gamma)) {}
};
/// Scheduler(optimizer, exponential(gamma))
struct ExponentialLR : Scheduler {
  ExponentialLR(Optimizer& optimizer, double gamma) : Scheduler(optimizer, exponential(gamma)) {}
};
/// Scheduler(optimizer, constant(factor, total_iters))
struct ConstantLR : Scheduler {
  explicit ConstantLR(Optimizer& optimizer, double factor = 1.0 / 3, std::int64_t total_iters = 5)
      : Scheduler(optimizer, constant(factor, total_iters)) {}
};
/// Scheduler(optimizer, linear(start_factor, end_factor, total_iters))
struct LinearLR : Scheduler {
  explicit LinearLR(Optimizer& optimizer, double start_factor = 1.0 / 3, double end_factor = 1,
                    std::int64_t total_iters = 5)
      : Scheduler(optimizer, linear(start_factor, end_factor, total_iters)) {}
};
/// Scheduler(optimizer, polynomial(total_iters, power))
struct PolynomialLR : Scheduler {
  explicit PolynomialLR(Optimizer& optimizer, std::int64_t total_iters = 5, double power = 1)
      : Scheduler(optimizer, polynomial(total_iters, power)) {}
};
/// Scheduler(optimizer, Schedule(lr_lambda))
struct LambdaLR : Scheduler {
  LambdaLR(Optimizer& optimizer, std::function<double(std::int64_t step)> lr_lambda)
      : Scheduler(optimizer, Schedule(std::move(lr_lambda))) {}
};

struct SWALROptions {
  std::int64_t anneal_epochs = 10;  ///< steps from a group's rate to swa_lr
  Annealing anneal_strategy = Annealing::cosine;
};

/// Leads each group's rate, wherever it is then, to swa_lr and keeps it there, for averaging weights: PyTorch's SWALR.
///     optim::AveragedModel average(model);
///     optim::SWALR swa(optimizer, 0.05);
///     for (...) { train(); average.update(); swa.step(); }
///     average.swap();
///     optim::update_bn(loader, model);
class SWALR {
 public:
  /// Makes step 0. The optimizer must outlive it. @throws Error for a negative rate or a negative number of epochs
  SWALR(Optimizer& optimizer, double swa_lr, SWALROptions options = {});
  /// @param swa_lr one for each group
  SWALR(Optimizer& optimizer, std::vector<double> swa_lr, SWALROptions options = {});
  /// Sets the rates of the next step; inside a captured step, at every replay.
  void step();
  std::vector<double> last_lr() const;

  /// "step": f64 on the CPU. The groups' rates are part of the optimizer's state.
  std::map<std::string, Tensor> state_dict() const;
  /// @throws Error unless "step" is all there is
  void load_state_dict(const std::map<std::string, Tensor>& state);

 private:
  double swa_lr(std::size_t group) const { return swa_lr_[swa_lr_.size() == 1 ? 0 : group]; }
  double share(std::int64_t step) const;
  void set_rates();

  Optimizer& optimizer_;
  std::vector<double> swa_lr_;  ///< one for all groups, or one each
  SWALROptions options_;
  std::int64_t step_ = 0;
};

struct PlateauOptions {
  bool maximize = false;       ///< larger metrics are better; PyTorch's mode "max"
  double factor = 0.1;         ///< multiplies the rates, in (0, 1)
  std::int64_t patience = 10;  ///< steps without a better metric that are let pass
  double threshold = 1e-4;     ///< a metric must be better by this to count
  bool relative = true;        ///< the threshold is a share of the best metric; PyTorch's threshold_mode "rel"
  std::int64_t cooldown = 0;   ///< steps after a reduction that do not count
  double min_lr = 0;
  double eps = 1e-8;  ///< a rate that would change by no more stays
};

/// Lowers the rates of all groups, also of those added later, when a metric stops getting better: PyTorch's
/// ReduceLROnPlateau. The metric is a number on the host, so call step() outside captured steps; their next replay uses
/// the rates.
class ReduceLROnPlateau {
 public:
  /// The optimizer must outlive it. @throws Error for a setting out of range
  explicit ReduceLROnPlateau(Optimizer& optimizer, PlateauOptions options = {});
  /// @param metric NaN is never better @throws Error while a step is captured
  void step(double metric);
  double best() const { return best_; }

  /// "best", "bad_steps", "cooldown_left": f64 on the CPU.
  std::map<std::string, Tensor> state_dict() const;
  /// @throws Error if a name is missing or unknown
  void load_state_dict(const std::map<std::string, Tensor>& state);

 private:
  bool better(double metric) const;

  Optimizer& optimizer_;
  PlateauOptions options_;
  double best_;
  std::int64_t bad_steps_ = 0, cooldown_left_ = 0;
};

}  // namespace etna::optim
