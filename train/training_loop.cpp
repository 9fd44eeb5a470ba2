#include <etna/train/training_loop.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include <etna/device/internal/log.h>
#include <etna/dist/dist.h>
#include <etna/tensor/ops/random/random.h>
#include <etna/train/checkpointer.h>
#include <etna/train/evaluator.h>
#include <etna/train/internal/loss_meter.h>
#include <etna/train/metrics.h>
#include <etna/train/progress.h>

namespace etna::training {
namespace {

constexpr std::int64_t kReadEvery = 10;
constexpr double kWorthSaying = 0.05;  ///< of the time of training, that one rank made the others wait

/// Rank 0 alone shows what the loop does.
TrainingLoopOptions of_this_rank(TrainingLoopOptions options) {
  options.distributed &= distributed::is_distributed();
  options.sharded &= options.distributed;
  if (options.distributed && distributed::rank() != 0) options.progress = false;
  return options;
}

}  // namespace

struct TrainingLoop::State {
  const std::int64_t& step;
  const TrainingLoopOptions options;
  std::optional<Interrupt> interrupt = {};
  EarlyStopping stopping;
  double seconds = 0;  ///< of training up to the last checkpoint
  std::optional<Checkpointer> checkpoints = {};
  std::optional<LossMeter> meter = {};
  std::optional<Progress> progress = {};
  std::optional<MetricLog> metrics = {};
  std::vector<double> epoch_loss = {}, epoch_seconds = {};
  std::int64_t first_step = 0;
  double epoch_begin = 0;
  std::int64_t epoch_first = 0;    ///< the step at which epoch_begin was
  std::int64_t validated_at = -1;  ///< the step of the last validation
  bool stopped = false;            ///< some rank was interrupted
  bool due = false;                ///< rank 0 saves a checkpoint at this step
  bool saves = false;              ///< rank 0 has a folder

  State(const std::int64_t& s, TrainingLoopOptions given)
      : step(s), options(of_this_rank(std::move(given))), stopping({.patience = options.patience}) {
    if (options.interruptible) interrupt.emplace();
  }

  /// @return false where the run is as it was reported
  bool restore();
  void begin();

  bool requested() const { return options.distributed ? stopped : interrupt && interrupt->requested(); }
  /// Whether this process writes what all share.
  bool writes() const { return !options.distributed || distributed::rank() == 0; }
  void agree();
  /// Gives rank 0 this rank's part of a checkpoint.
  void give_parts() const {
    for (const CheckpointItem& item : options.items) item.state();
  }
  void say_slowest() const;
  bool go_on() const { return step < options.steps && !requested() && !stopping.should_stop(); }
  bool at_end_of_epoch() const { return step > 0 && step % options.steps_per_epoch == 0; }
  bool reads() const {
    if (options.reads) return options.reads(step);
    return step == 1 || step % kReadEvery == 0 || step == options.steps;
  }
  void check(double loss, std::int64_t at) const {
    if (std::isfinite(loss)) return;
    throw NonFiniteLoss(fmt::format("{}{}the loss at step {} is {}; {}", options.name, options.name.empty() ? "" : ": ",
                                    at, loss, options.advice));
  }

  void warn(const std::string& sentence) {
    if (progress) return progress->message("warning: " + sentence);
    log().warn("{}", sentence);
  }
  /// A full disk must not end a run of hours: it is said, and the run goes on.
  void write(std::int64_t at, const MetricLog::Values& values) {
    if (!metrics) return;
    try {
      metrics->log(at, values, meter->seconds());
    } catch (const FormatError& error) {
      warn(error.what());
    }
  }

  void show(const std::optional<LossReading>& reading);
  void end_epoch(MetricLog::Values& row);
  /// Logs and prints what was measured at this step.
  void report(const MetricLog::Values& row, bool best);
  /// Validates. @param row what else was measured @return true if the present weights are the best so far
  bool validate(MetricLog::Values row);
  std::string line(const MetricLog::Values& row, bool best) const;
  void save(const Tensor& loss, bool best);
};

bool TrainingLoop::State::restore() {
  const auto restored = checkpoints->restore();
  if (!restored) throw FormatError(fmt::format("{} has no checkpoint to go on from", options.folder.string()));
  if (options.progress) {
    for (const std::string& damage : restored->damaged) fmt::print("{}; an older checkpoint is used\n", damage);
  }
  if (step == options.reported && !go_on()) return false;
  if (options.progress) fmt::print("resumed: {}, step {} of {}\n", restored->path.string(), step, options.steps);
  return true;
}

void TrainingLoop::State::begin() {
  if (!options.folder.empty() && writes()) {
    std::vector<std::string> columns = options.columns;
    if (columns.empty()) columns = {"loss", "lr", "epoch_loss", "valid_loss"};
    metrics.emplace(options.folder, std::move(columns), options.resume ? std::optional(step) : std::nullopt);
  }
  meter.emplace(options.tokens_per_step, step, seconds);
  const std::int64_t every = options.validate_every > 0 ? options.validate_every : options.steps_per_epoch;
  if (options.progress) {
    progress.emplace(options.steps, ProgressOptions{.first = step,
                                                    .items_per_step = static_cast<double>(options.tokens_per_step),
                                                    .pause_every = options.validate ? every : 0,
                                                    .device = options.device});
  }
  epoch_begin = seconds;
  first_step = epoch_first = step;
}

void TrainingLoop::State::show(const std::optional<LossReading>& reading) {
  if (!reading) return;
  check(reading->loss, reading->step);
  MetricLog::Values row = {{"loss", reading->loss}, {"lr", reading->lr}};
  if (options.tokens_per_step > 0) row.emplace_back("tokens_per_second", reading->tokens_per_second);
  write(reading->step, row);
  Progress::Metrics shown = {{"loss", reading->loss}};
  if (options.perplexity) shown.emplace_back("perplexity", std::exp(reading->loss));
  if (progress) progress->update(reading->step, shown);
}

void TrainingLoop::State::end_epoch(MetricLog::Values& row) {
  show(meter->take());
  if (options.epoch_loss) {
    epoch_loss.push_back(options.epoch_loss());  // waits for the device
    row.emplace_back("epoch_loss", epoch_loss.back());
  } else {
    synchronize(options.device);
  }
  // An epoch that began before a checkpoint was timed only in part.
  if (epoch_first + options.steps_per_epoch == step) epoch_seconds.push_back(meter->seconds() - epoch_begin);
  epoch_begin = meter->seconds();
  epoch_first = step;
}

void TrainingLoop::State::report(const MetricLog::Values& row, bool best) {
  write(step, row);
  if (progress) progress->message(line(row, best));
}

bool TrainingLoop::State::validate(MetricLog::Values row) {
  meter->pause();
  if (progress) progress->pause();
  const double own = writes() || options.sharded ? options.validate() : 0;
  const double loss = options.distributed ? distributed::number_of_first(own) : own;
  if (progress) progress->resume();
  meter->resume();
  validated_at = step;
  row.emplace_back("valid_loss", loss);
  if (options.perplexity) row.emplace_back("valid_perplexity", std::exp(loss));
  const bool first = std::isinf(stopping.best()), best = stopping.improved(loss);
  report(row, best && (options.epoch_lines || !first));
  return best;
}

/// "step 117: validation loss 2.8244, perplexity 16.85", or "epoch 2: mean loss 0.8019, validation loss 0.7237"
std::string TrainingLoop::State::line(const MetricLog::Values& row, bool best) const {
  std::string text =
      options.epoch_lines ? fmt::format("epoch {}", step / options.steps_per_epoch) : fmt::format("step {}", step);
  const char* separator = ": ";
  for (const auto& [name, value] : row) {
    text += name == "valid_perplexity"
                ? fmt::format("{}perplexity {:.2f}", separator, value)
                : fmt::format("{}{} loss {:.4f}", separator, name == "epoch_loss" ? "mean" : "validation", value);
    separator = ", ";
  }
  return best ? text + ", the best so far" : text;
}

/// What all ranks do alike at this step: whether one was interrupted, which ends the loop, or else rank 0 saves.
void TrainingLoop::State::agree() {
  const bool now = checkpoints && writes() && checkpoints->due(), end = interrupt && interrupt->requested();
  due = now;
  if (!options.distributed) return;
  const int most = distributed::all_reduce(scalar(end ? 2 : now ? 1 : 0, {i32}), distributed::Reduce::max).item<int>();
  stopped = most == 2;
  if (options.sharded) due = most == 1;
}

void TrainingLoop::State::say_slowest() const {
  const distributed::Slowest slowest = distributed::slowest_rank();
  if (slowest.rank < 0 || slowest.seconds < kWorthSaying * meter->seconds()) return;
  fmt::print("rank {} was the slowest: others waited {:.1f} s longer than it did\n", slowest.rank, slowest.seconds);
}

void TrainingLoop::State::save(const Tensor& loss, bool best) {
  if (!writes()) return give_parts();
  // Metrics up to this step are on disk before the checkpoint, and weights that are lost are not kept.
  show(meter->take());
  check(loss.item<double>(), step);
  seconds = meter->seconds();
  try {
    checkpoints->save(step, options.metadata, best);
  } catch (const FormatError& error) {
    warn(fmt::format("no checkpoint: {}", error.what()));
  }
}

TrainingLoop::TrainingLoop(const std::int64_t& step, TrainingLoopOptions options)
    : state_(std::make_unique<State>(step, std::move(options))) {
  State& s = *state_;
  if (!s.options.folder.empty()) {
    std::vector<CheckpointItem> items = s.options.items;
    // Before the model, so that what comes before it, such as a vocabulary, is refused first.
    const auto model =
        std::find_if(items.begin(), items.end(), [](const auto& item) { return item.name() == "model"; });
    // Runs of older versions do not say when they validated last: the end of one that is resumed validates again.
    const CheckpointItem validated = CheckpointItem("validated_at", s.validated_at).optional();
    items.insert(model, {{"stopping", s.stopping}, validated, {"seconds", s.seconds}});
    s.checkpoints.emplace(s.options.folder / "checkpoints", std::move(items),
                          CheckpointerOptions{.keep = s.options.keep, .seconds = s.options.checkpoint_seconds});
  }
  s.saves = s.checkpoints.has_value();
  if (!s.options.distributed) {
    if (!s.options.resume || s.restore()) s.begin();
    return;
  }
  s.saves = distributed::any_rank(s.saves && s.writes());
  // Rank 0 first: it gives damaged files another name.
  const bool first = s.writes();
  bool begins = true;
  if (s.options.resume && first) begins = s.restore();
  distributed::barrier();
  if (s.options.resume && !first) begins = s.restore();
  distributed::require_same("checkpoint", fmt::format("step {}", step));
  if (s.options.resume && !first) {
    // Rank 0's random numbers were saved; each rank has its own.
    const RandomState saved = random_state();
    set_random_state({distributed::seed_of_rank(saved.seed), saved.offset});
  }
  distributed::slowest_rank();
  if (begins) s.begin();
}

TrainingLoop::~TrainingLoop() = default;

bool TrainingLoop::nothing_left() const { return !state_->meter; }
bool TrainingLoop::go_on() const { return state_->go_on(); }
bool TrainingLoop::at_end_of_epoch() const { return state_->at_end_of_epoch(); }

void TrainingLoop::after_step(double lr, const Tensor& loss) {
  State& s = *state_;
  if (s.reads()) s.show(s.meter->request(s.step, lr, loss));
  s.show(s.meter->poll());
  s.agree();
  MetricLog::Values row;
  if (s.at_end_of_epoch()) s.end_epoch(row);
  if (!s.options.epoch_lines && !row.empty()) s.write(s.step, std::exchange(row, {}));
  const bool now = s.options.validate_every > 0 ? s.step % s.options.validate_every == 0 : s.at_end_of_epoch();
  const bool validates = s.options.validate && now;
  const bool best = validates && s.validate(std::move(row));
  if (!validates && !row.empty()) s.report(row, false);
  if (s.saves && (s.writes() || s.options.sharded) && (best || s.due)) s.save(loss, best);
}

void TrainingLoop::finish() {
  State& s = *state_;
  s.show(s.meter->take());
  bool best = false;
  if (s.options.validate && !s.options.epoch_lines && !interrupted()) {
    best = s.validated_at == s.step ? s.stopping.improved() : s.validate({});
  }
  if (s.progress) s.progress->finish();
  if (s.options.distributed && s.options.progress) s.say_slowest();
  if (s.saves && s.options.sharded && !s.writes()) s.give_parts();
  if (!s.checkpoints || !s.writes()) return;
  s.seconds = s.meter->seconds();
  try {
    s.checkpoints->wait();
  } catch (const FormatError&) {
    // An older one that could not be written; the last one decides.
  }
  s.checkpoints->save(s.step, s.options.metadata, best);
  s.checkpoints->wait();
}

void TrainingLoop::take_best(nn::Module& model) const {
  if (!state_->checkpoints || state_->stopping.improved()) return;
  const FilePath best = find_checkpoints(state_->checkpoints->folder()).best;
  if (best.empty()) return;
  // A model that is divided among ranks is loaded by what divides it.
  const auto& items = state_->options.items;
  const auto item = std::find_if(items.begin(), items.end(), [](const auto& i) { return i.name() == "model"; });
  load(best, {item == items.end() ? CheckpointItem("model", model) : *item});
  if (state_->options.progress) fmt::print("the best weights are those of {}\n", printable(best.string()));
}

bool TrainingLoop::interrupted() const { return state_->requested() && state_->step < state_->options.steps; }
int TrainingLoop::exit_code() const {
  const int own = state_->interrupt ? state_->interrupt->exit_code() : 0;
  return own == 0 && state_->stopped ? 130 : own;
}
double TrainingLoop::valid_loss() const { return state_->stopping.best(); }

RunSummary TrainingLoop::summary() const {
  const State& s = *state_;
  RunSummary summary;
  summary.command = s.options.command;
  summary.preset = s.options.preset;
  summary.device = s.options.device;
  summary.losses = s.meter->readings();
  summary.seconds = s.meter->seconds();
  summary.ms_per_step_median = s.meter->ms_per_step_median();
  summary.first_step = s.first_step;
  summary.steps = s.step;
  summary.tokens_per_step = s.options.tokens_per_step;
  summary.steps_per_epoch = s.options.steps_per_epoch;
  summary.epoch_loss = s.epoch_loss;
  summary.epoch_seconds = s.epoch_seconds;
  return summary;
}

}  // namespace etna::training
