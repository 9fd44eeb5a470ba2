#include "watch.h"

#include <cmath>

#include <fmt/format.h>

#include <etna/etna.h>

namespace wikitext {

using namespace etna;

namespace {

constexpr std::int64_t kLookEvery = 10;

}  // namespace

Watch::Watch(TrainingRun& run, TextModel& model, Corpus& corpus, const Settings& settings, Device device,
             Options options)
    : run_(run),
      model_(model),
      tokenizer_{corpus.tokenizer},
      settings_(settings),
      options_(std::move(options)),
      stopping_({.patience = settings.patience}) {
  if (options_.evaluate)
    valid_.emplace(model, corpus.valid,
                   SplitOptions{.title = "validation",
                                .streams = streams_of_splits(model, settings),
                                .seq = settings.seq,
                                .device = device,
                                .precision = dtype_named(settings.precision)});
  const std::filesystem::path& folder = options_.folder;
  if (!folder.empty()) {
    // The tokenizer first: another corpus is then said as such, and not as tables of other sizes.
    std::vector<CheckpointItem> items{
        {"vocabulary", tokenizer_}, {"stopping", stopping_}, {"validated_at", validated_at_}, {"seconds", seconds_}};
    for (CheckpointItem& item : run_.items()) items.push_back(std::move(item));
    checkpoints_.emplace(folder / "checkpoints", items,
                         training::CheckpointerOptions{.keep = settings.keep, .seconds = settings.checkpoint_seconds});
  }
  if (options_.resume) {
    const auto restored = checkpoints_->restore();
    if (!restored) throw FormatError(fmt::format("{} has no checkpoint to go on from", folder.string()));
    for (const std::string& damage : restored->damaged) fmt::print("{}; an older checkpoint is used\n", damage);
    run_.resume();
    if (run_.step() == options_.reported && !go_on()) return;
    fmt::print("resumed: {}, step {} of {}\n", restored->path.string(), run_.step(), run_.total());
  }
  if (!folder.empty()) {
    metrics_.emplace(folder, std::vector<std::string>{"loss", "lr", "tokens_per_second", "valid_loss"},
                     options_.resume ? std::optional(run_.step()) : std::nullopt);
  }
  meter_.emplace(run_.tokens_per_step(), run_.step(), seconds_);
  const std::int64_t every = settings.eval_every > 0 ? settings.eval_every : run_.steps_per_epoch();
  progress_.emplace(run_.total(),
                    training::ProgressOptions{.first = run_.step(),
                                              .items_per_step = static_cast<double>(run_.tokens_per_step()),
                                              .pause_every = options_.evaluate ? every : 0,
                                              .device = device});
  epoch_begin_ = seconds_;
  epoch_first_ = run_.step();
}

bool Watch::go_on() const { return run_.step() < run_.total() && !interrupt_.requested() && !stopping_.should_stop(); }

void Watch::after_step(double lr, const Tensor& loss) {
  const std::int64_t step = run_.step();
  if (step == 1 || step % kLookEvery == 0 || step == run_.total()) tell(meter_->look(step, lr, loss));
  tell(meter_->poll());
  if (run_.at_end_of_epoch()) {
    tell(meter_->take());
    const double mean = run_.epoch_loss();  // waits for the device
    // An epoch that began before a checkpoint was timed only in part.
    if (epoch_first_ + run_.steps_per_epoch() == step) epoch_seconds_.push_back(meter_->seconds() - epoch_begin_);
    epoch_loss_.push_back(mean);
    log(step, {{"epoch_loss", mean}});
    epoch_begin_ = meter_->seconds();
    epoch_first_ = step;
  }
  const bool now = settings_.eval_every > 0 ? step % settings_.eval_every == 0 : run_.at_end_of_epoch();
  const bool best = options_.evaluate && now && validate();
  if (checkpoints_ && (best || checkpoints_->due())) save(loss, best);
}

bool Watch::validate() {
  if (validated_at_ == run_.step()) return stopping_.improved();
  meter_->pause();
  progress_->pause();
  const double before = stopping_.best(), loss = valid_->loss();
  progress_->resume();
  meter_->resume();
  validated_at_ = run_.step();
  const bool best = stopping_.improved(loss);
  log(run_.step(), {{"valid_loss", loss}, {"valid_perplexity", std::exp(loss)}});
  progress_->message(fmt::format("step {}: validation loss {:.4f}, perplexity {:.2f}{}", run_.step(), loss,
                                 std::exp(loss), best && !std::isinf(before) ? ", the best so far" : ""));
  return best;
}

void Watch::finish() {
  tell(meter_->take());
  const bool best = options_.evaluate && !interrupted() && validate();
  progress_->finish();
  if (!checkpoints_) return;
  seconds_ = meter_->seconds();
  try {
    checkpoints_->wait();
  } catch (const FormatError&) {
    // An older one that could not be written; the last one decides.
  }
  checkpoints_->save(run_.step(), options_.metadata, best);
  checkpoints_->wait();
}

void Watch::take_best() {
  if (!checkpoints_ || stopping_.improved()) return;
  const std::filesystem::path best = training::find_checkpoints(checkpoints_->folder()).best;
  if (best.empty()) return;
  load(best, {{"model", model_.module()}});
  fmt::print("the best weights are those of {}\n", training::printable(best.string()));
}

Summary Watch::summary(const std::string& preset, std::int64_t first_step) const {
  Summary summary = summary_of(run_, *meter_, first_step);
  summary.preset = preset;
  summary.precision = settings_.precision;
  summary.epoch_loss = epoch_loss_;
  summary.epoch_seconds = epoch_seconds_;
  return summary;
}

void Watch::tell(const std::optional<Look>& look) {
  if (!look) return;
  log(look->step, {{"loss", look->loss}, {"lr", look->lr}, {"tokens_per_second", look->tokens_per_second}});
  progress_->update(look->step, {{"loss", look->loss}, {"perplexity", std::exp(look->loss)}});
}

/// A full disk must not end a run of hours: it is said, and the run goes on.
void Watch::log(std::int64_t step, const training::MetricLog::Values& values) {
  if (!metrics_) return;
  try {
    metrics_->log(step, values, meter_->seconds());
  } catch (const FormatError& error) {
    progress_->message(fmt::format("warning: {}", error.what()));
  }
}

void Watch::save(const Tensor& loss, bool best) {
  // Metrics up to this step are on disk before the checkpoint, and weights that are lost are not kept.
  tell(meter_->take());
  if (const double value = loss.item<double>(); !std::isfinite(value))
    throw NonFiniteLoss(fmt::format("the loss at step {} is {}; try a smaller --lr", run_.step(), value));
  seconds_ = meter_->seconds();
  try {
    checkpoints_->save(run_.step(), options_.metadata, best);
  } catch (const FormatError& error) {
    progress_->message(fmt::format("warning: no checkpoint: {}", error.what()));
  }
}

}  // namespace wikitext
