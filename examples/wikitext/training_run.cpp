#include "training_run.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include <etna/etna.h>

namespace wikitext {

using namespace etna;

namespace {

/// Weight decay on matrices only: biases and norms are not pulled toward zero.
std::vector<optim::ParamGroup> decay_matrices_only(const nn::Module& model, double weight_decay) {
  optim::ParamGroup matrices, vectors;
  for (const Tensor& p : model.parameters()) (p.dim() > 1 ? matrices : vectors).parameters.push_back(p);
  matrices.weight_decay = weight_decay;
  vectors.weight_decay = 0;
  return {matrices, vectors};
}

std::int64_t planned_steps(const Settings& s, std::int64_t steps_per_epoch) {
  return s.epochs > 0 ? s.epochs * steps_per_epoch : s.steps;
}

optim::Schedule schedule_of(const Settings& s, std::int64_t planned) {
  const optim::Schedule course = s.schedule == "cosine"   ? optim::cosine(planned, s.lr_floor)
                                 : s.schedule == "linear" ? optim::linear(planned, s.lr_floor)
                                                          : optim::constant();
  return s.warmup > 0 ? optim::linear_warmup(s.warmup) * course : course;
}

data::StreamBatches streams_of(const TokenIds& ids, const Settings& s) {
  data::StreamBatches streams = ids.streams(s.batch, s.seq);
  if (streams.steps() < s.accumulation) {
    throw FormatError(fmt::format("the text has {} batches of {} sequences, a step accumulates {}; try fewer",
                                  streams.steps(), s.batch, s.accumulation));
  }
  return streams;
}

}  // namespace

TrainingRun::TrainingRun(TextModel& model, const TokenIds& ids, const Settings& s, Device device, RunOptions options)
    : model_(model),
      memory_(model.memory(s.batch, device)),
      streams_(streams_of(ids, s)),
      device_(device),
      options_(options),
      precision_(dtype_named(s.precision)),
      accumulation_(s.accumulation),
      seq_(s.seq),
      spread_(s.seq_spread),
      total_(planned_steps(s, steps_per_epoch())),
      seed_(static_cast<std::uint64_t>(s.seed)),
      optimizer_(decay_matrices_only(model.module(), s.weight_decay),
                 {.lr = s.lr, .betas = {s.beta1, s.beta2}, .eps = s.eps, .max_grad_norm = s.clip}),
      scaler_({.enabled = precision_ == f16}),
      schedule_(optimizer_, schedule_of(s, total_)),
      epoch_loss_(zeros({}, {f32, device})),
      replayed_([this](const Tensor& x, const Tensor& y) { return train(x, y); },
                {.device = device, .name = "training step", .varied_shapes = s.seq_spread > 0}),
      replayed_resident_([this] { return train({}, {}); }, {.device = device, .name = "training step"}) {
  if (s.steps > 0) total_ = std::min(s.steps, total_);
  if (options_.resident && spread_ > 0) throw SettingError("--resident does not go with seq_spread");
  if (options_.resident) resident_.emplace(streams_, device);
  model_.module().train();
}

/// One step of the optimizer. @param x, y the tokens of all batches that it accumulates, or undefined if they are on
/// the device
Tensor TrainingRun::train(const Tensor& x, const Tensor& y) {
  Tensor total;
  for (std::int64_t k = 0; k < accumulation_; ++k) {
    const std::int64_t rows = streams_.batch(), first = k * rows;
    const data::Batch batch =
        resident_ ? resident_->next() : data::Batch{x.slice(0, first, first + rows), y.slice(0, first, first + rows)};
    Tensor loss;
    {
      auto mixed = autocast(precision_);
      loss = model_.loss(batch.x, batch.y, *memory_);
    }
    if (accumulation_ > 1) loss = loss / static_cast<double>(accumulation_);
    // With sequences of varied lengths, each token weighs alike.
    const double weight = static_cast<double>(batch.x.size(1)) / static_cast<double>(seq_);
    scaler_.scale(weight == 1 ? loss : loss * weight).backward();
    total = total.defined() ? total + loss.detach() : loss.detach();
  }
  scaler_.step(optimizer_);
  scaler_.update();
  schedule_.step();
  optimizer_.zero_grad();
  epoch_loss_.add_(total);
  return total;
}

std::int64_t TrainingRun::steps_of_all_kinds() const {
  if (spread_ == 0) return 2;
  const std::vector<data::StreamSpan> spans = data::varied_spans(streams_, spread_, seed_, 0);
  std::map<std::int64_t, int> seen;
  std::int64_t steps = 2;
  for (std::size_t i = 0; i < spans.size(); ++i) {
    if (++seen[spans[i].count] == 2) steps = static_cast<std::int64_t>(i) + 1;
  }
  return steps;
}

void TrainingRun::load_batches() {
  const std::int64_t first = step_ % steps_per_epoch() * accumulation_;
  if (spread_ > 0) {
    loader_.emplace(streams_, data::varied_spans(streams_, spread_, seed_, step_ / steps_per_epoch()), first);
  } else {
    loader_.emplace(streams_, first);
  }
}

/// The tokens of one step, [accumulation · batch, seq] on the CPU.
data::Batch TrainingRun::next_batch() {
  if (!loader_) load_batches();
  std::vector<Tensor> x, y;
  for (std::int64_t k = 0; k < accumulation_; ++k) {
    const data::Batch batch = *loader_->next();
    x.push_back(batch.x);
    y.push_back(batch.y);
  }
  if (x.size() == 1) return {x[0], y[0]};
  return {cat(x, 0), cat(y, 0)};
}

Tensor TrainingRun::advance() {
  if (step_ % steps_per_epoch() == 0) {
    epoch_loss_.zero_();
    memory_->clear();
    loader_.reset();
    if (resident_) resident_->seek(0);
  }
  Tensor loss;
  if (resident_) {
    loss = options_.captured ? replayed_resident_() : train({}, {});
  } else {
    const data::Batch batch = next_batch();
    loss = options_.captured ? replayed_(batch.x, batch.y) : train(batch.x.to(device_), batch.y.to(device_));
  }
  ++step_;
  return loss;
}

double TrainingRun::epoch_loss() const {
  const std::int64_t steps = step_ % steps_per_epoch();
  return epoch_loss_.item<double>() / static_cast<double>(steps == 0 ? steps_per_epoch() : steps);
}

std::optional<ProgramReport> TrainingRun::program() const {
  if (replayed_.captured()) return replayed_.report();
  if (replayed_resident_.captured()) return replayed_resident_.report();
  return std::nullopt;
}

std::vector<CheckpointItem> TrainingRun::items() {
  std::vector<CheckpointItem> all{{"model", model_.module()}, {"optimizer", optimizer_},   {"scaler", scaler_},
                                  {"schedule", schedule_},    {"epoch_loss", epoch_loss_}, {"step", step_}};
  if (model_.remembers()) all.emplace_back("memory", *memory_);
  return all;
}

void TrainingRun::resume() {
  loader_.reset();
  if (resident_) resident_->seek(step_ % steps_per_epoch() * accumulation_);
}

}  // namespace wikitext
