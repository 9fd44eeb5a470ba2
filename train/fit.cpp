#include <etna/train/fit.h>

#include <cmath>
#include <utility>

#include <fmt/format.h>

#include <etna/autograd/autograd.h>
#include <etna/device/error.h>
#include <etna/device/internal/log.h>
#include <etna/device/internal/os/clock.h>
#include <etna/optim/grad_scaler.h>
#include <etna/tensor/autocast.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/readback.h>
#include <etna/train/checkpointer.h>
#include <etna/train/early_stopping.h>
#include <etna/train/interrupt.h>
#include <etna/train/metric_log.h>
#include <etna/train/progress.h>

namespace etna::training {
namespace {

constexpr std::int64_t kLookEvery = 10;

}  // namespace

struct detail::Fit::State {
  nn::Module& model;
  Evaluator::Metric loss;
  optim::Optimizer& optimizer;
  const std::int64_t steps_per_epoch;
  const FitOptions options;
  optim::GradScaler scaler;
  RunningSum epoch_loss;
  std::int64_t made = 0;  ///< steps
  double before = 0;      ///< seconds of training up to the last checkpoint
  double mean = 0;        ///< of the last whole epoch
  EarlyStopping stopping;
  Interrupt interrupt;
  Evaluator evaluator;
  CapturedFunction<std::function<Tensor(const Tensor&, const Tensor&)>> captured;
  std::optional<RunFolder> folder = {};
  std::optional<Checkpointer> checkpoints = {};
  std::optional<MetricLog> metrics = {};
  std::optional<Progress> progress = {};
  PendingValue pending = {};
  std::int64_t pending_step = 0;
  double begin = os::steady_seconds();

  State(nn::Module& m, Evaluator::Metric l, optim::Optimizer& o, std::int64_t steps, const FitOptions& given)
      : model(m),
        loss(std::move(l)),
        optimizer(o),
        steps_per_epoch(steps),
        options(given),
        scaler({.enabled = given.precision == f16}),
        epoch_loss(given.device),
        stopping({.patience = given.patience}),
        evaluator(m, loss, {.device = given.device, .precision = given.precision, .title = "validation"}),
        captured([this](const Tensor& x, const Tensor& y) { return train(x, y); },
                 {.device = given.device, .name = "training step"}) {}

  Tensor train(const Tensor& x, const Tensor& y) {
    Tensor value;
    {
      auto mixed = autocast(options.precision);
      value = loss(x, y);
    }
    scaler.scale(value).backward();
    scaler.step(optimizer);
    scaler.update();
    if (options.schedule != nullptr) options.schedule->step();
    optimizer.zero_grad();
    value = value.detach();
    epoch_loss.add(value);
    return value;
  }

  std::int64_t total() const { return options.epochs * steps_per_epoch; }
  double seconds() const { return before + os::steady_seconds() - begin; }
  /// Moves what the clock shows into the number that checkpoints keep.
  void count_seconds() {
    before = seconds();
    begin = os::steady_seconds();
  }

  void check(double value, std::int64_t step) const {
    if (!std::isfinite(value))
      throw Error(fmt::format("fit: the loss at step {} is {}; try a smaller learning rate", step, value));
  }

  void message(const std::string& line) {
    if (progress) progress->message(line);
  }
  void warn(const std::string& sentence) {
    if (progress) return progress->message("warning: " + sentence);
    etna::log().warn("{}", sentence);
  }

  void log(std::int64_t step, const MetricLog::Values& values) {
    if (!metrics) return;
    try {
      metrics->log(step, values, seconds());
    } catch (const FormatError& error) {
      warn(error.what());
    }
  }

  /// Shows and logs the loss that was asked for, which waits for it if need be.
  void tell() {
    if (!pending.defined()) return;
    const double value = std::exchange(pending, {}).get();
    log(pending_step, {{"loss", value}, {"lr", optimizer.lr()}});
    if (progress) progress->update(pending_step, {{"loss", value}});
    check(value, pending_step);
  }

  void save(bool best) {
    tell();
    count_seconds();
    try {
      checkpoints->save(made, {}, best);
    } catch (const FormatError& error) {
      warn(fmt::format("no checkpoint: {}", error.what()));
    }
  }
};

detail::Fit::Fit(nn::Module& model, Evaluator::Metric loss, optim::Optimizer& optimizer, const CheckpointItem& loader,
                 std::int64_t steps_per_epoch, const FitOptions& options, bool validates) {
  if (options.epochs < 0 || steps_per_epoch < 1)
    throw Error(fmt::format("fit: {} epochs of {} batches are no training", options.epochs, steps_per_epoch));
  if (options.patience > 0 && !validates)
    throw Error(fmt::format("fit: a patience of {} epochs needs batches to validate with; give `valid`, or no patience",
                            options.patience));
  state_ = std::make_unique<State>(model, std::move(loss), optimizer, steps_per_epoch, options);
  State& s = *state_;
  const bool resume = options.existing == ExistingRun::resume;
  if (resume && options.folder.empty()) throw Error("fit: to resume a run, name its folder");
  if (!options.folder.empty()) {
    s.folder.emplace(options.folder, options.existing);
    std::vector<CheckpointItem> items = {
        {"model", model}, {"optimizer", optimizer}, {"scaler", s.scaler},     loader,
        {"step", s.made}, {"seconds", s.before},    {"stopping", s.stopping}, {"epoch_loss", s.epoch_loss.total},
        {"mean", s.mean}};
    if (options.schedule != nullptr) items.emplace_back("schedule", *options.schedule);
    s.checkpoints.emplace(s.folder->checkpoints(), items, CheckpointerOptions{.seconds = options.checkpoint_seconds});
    if (resume && !s.checkpoints->restore())
      throw FormatError(fmt::format("{} has no checkpoint to go on from", options.folder.string()));
    s.metrics.emplace(options.folder, std::vector<std::string>{"loss", "lr", "epoch_loss", "valid_loss"},
                      resume ? std::optional(s.made) : std::nullopt);
  }
  if (s.made > s.total())
    throw Error(fmt::format("fit: {} steps are made, {} epochs have {}", s.made, options.epochs, s.total()));
  if (options.progress)
    s.progress.emplace(s.total(),
                       ProgressOptions{.first = s.made, .pause_every = steps_per_epoch, .device = options.device});
  model.train();
}

detail::Fit::~Fit() = default;

bool detail::Fit::go_on() const {
  return state_->made < state_->total() && !state_->interrupt.requested() && !state_->stopping.should_stop();
}

void detail::Fit::step(const Tensor& x, const Tensor& y) {
  State& s = *state_;
  const Tensor value = s.options.captured ? s.captured(x, y) : s.train(x.to(s.options.device), y.to(s.options.device));
  ++s.made;
  if (s.made == 1 || s.made % kLookEvery == 0 || s.made == s.total()) {
    s.tell();
    s.pending = read_later(value);
    s.pending_step = s.made;
  }
  if (s.pending.defined() && s.pending.ready()) s.tell();
  if (s.checkpoints && !at_end_of_epoch() && s.checkpoints->due()) s.save(false);
}

bool detail::Fit::at_end_of_epoch() const { return state_->made % state_->steps_per_epoch == 0; }

void detail::Fit::end_epoch(const std::function<double(Evaluator&)>& validate) {
  State& s = *state_;
  s.tell();
  s.mean = s.epoch_loss.value() / static_cast<double>(s.steps_per_epoch);
  s.check(s.mean, s.made);
  s.epoch_loss.reset();
  std::string line = fmt::format("epoch {}: mean loss {:.4f}", s.made / s.steps_per_epoch, s.mean);
  MetricLog::Values values = {{"epoch_loss", s.mean}};
  bool best = false;
  if (validate) {
    if (s.progress) s.progress->pause();
    const double loss = validate(s.evaluator);
    if (s.progress) s.progress->resume();
    best = s.stopping.improved(loss);
    line += fmt::format(", validation loss {:.4f}{}", loss, best ? ", the best so far" : "");
    values.emplace_back("valid_loss", loss);
  }
  s.log(s.made, values);
  s.message(line);
  if (s.checkpoints && (best || s.checkpoints->due())) s.save(best);
}

FitResult detail::Fit::finish() {
  State& s = *state_;
  s.tell();
  if (s.progress) s.progress->finish();
  if (s.checkpoints) {
    s.count_seconds();
    s.checkpoints->save(s.made);
    s.checkpoints->wait();
  }
  FitResult result{.steps = s.made, .epochs = s.made / s.steps_per_epoch, .loss = s.mean};
  if (std::isfinite(s.stopping.best())) result.valid_loss = s.stopping.best();
  if (s.made < s.total()) {
    result.exit_code = s.interrupt.exit_code();
    result.ending = s.interrupt.requested() ? Ending::interrupted : Ending::patience;
  }
  return result;
}

}  // namespace etna::training
