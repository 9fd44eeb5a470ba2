#include "train.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>

#include <fmt/format.h>

#include <etna/etna.h>

namespace wikitext {
namespace {

using namespace etna;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// Weight decay on matrices only: biases and norms are not pulled toward zero.
std::vector<optim::ParamGroup> decay_matrices_only(const nn::Module& model, double weight_decay) {
  optim::ParamGroup matrices, vectors;
  for (const Tensor& p : model.parameters()) (p.dim() > 1 ? matrices : vectors).parameters.push_back(p);
  matrices.weight_decay = weight_decay;
  vectors.weight_decay = 0;
  return {matrices, vectors};
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Reads the loss from time to time and measures the time between reads. A loss is requested at its step and taken at
/// the next read. It has arrived by then, so the GPU never idles for it.
class Meter {
 public:
  Meter(History& history, const Progress& progress, std::int64_t total)
      : history_(history), progress_(progress), total_(total) {}

  void look(std::int64_t step, const Tensor& loss) {
    take();
    asked_ = step;
    loss_ = read_later(loss);
  }

  /// Takes the loss that is still pending.
  void take() {
    if (!loss_.defined()) return;
    const std::int64_t step = asked_;
    double value = loss_.get();
    loss_ = {};
    double now = seconds_since(start_);
    auto span = static_cast<double>(step - last_step_);
    if (last_step_ == 1) spans_.clear();  // the first step includes warm-up
    spans_.push_back((now - last_seconds_) / span * 1e3);
    last_step_ = step;
    last_seconds_ = now;
    history_.loss.push_back({step, value});
    history_.ms_per_step_median = median(spans_);
    if (!std::isfinite(value)) {
      throw NonFiniteLoss(fmt::format("the loss at step {} is {}; try a smaller --lr", step, value));
    }
    progress_(step, total_, value, now);
  }

  double seconds() const { return seconds_since(start_); }

 private:
  History& history_;
  const Progress& progress_;
  PendingValue loss_;
  std::int64_t total_, asked_ = 0, last_step_ = 0;
  double last_seconds_ = 0;
  std::vector<double> spans_;
  Clock::time_point start_ = Clock::now();
};

}  // namespace

History train(nn::LanguageModel& model, std::span<const std::int32_t> ids, const Recipe& recipe, Device device,
              const Progress& progress) {
  data::StreamBatches streams(ids, recipe.batch, model.config.seq);
  History history;
  history.steps_per_epoch = streams.steps();
  history.precision = recipe.precision;
  const std::int64_t planned = recipe.epochs > 0 ? recipe.epochs * streams.steps() : recipe.steps;
  const std::int64_t total = recipe.steps > 0 ? std::min(recipe.steps, planned) : planned;

  optim::AdamW optimizer(decay_matrices_only(model, 0.1),
                         {.lr = recipe.lr, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .max_grad_norm = 1});
  optim::GradScaler scaler({.enabled = recipe.precision == f16});
  optim::Scheduler schedule(optimizer, optim::warmup_cosine(100, planned, 0.1));
  model.train();
  profile::StepProfiler unprofiled({.steps = 0});
  profile::StepProfiler& profiler = recipe.profiler != nullptr ? *recipe.profiler : unprofiled;

  Tensor epoch_loss = zeros({}, {f32, device});
  std::optional<data::ResidentBatches> resident;
  if (recipe.resident) resident.emplace(streams, device);
  // Takes x and y, or nothing if batches are sliced on the device.
  auto train_step = [&](const auto&... uploaded) {
    data::Batch batch = resident ? resident->next() : data::Batch{uploaded...};
    Tensor loss;
    {
      auto mixed = autocast(recipe.precision);
      loss = model.loss(batch.x, batch.y);
    }
    scaler.scale(loss).backward();
    scaler.step(optimizer);
    scaler.update();
    schedule.step();
    optimizer.zero_grad();
    loss = loss.detach();
    epoch_loss.add_(loss);
    return loss;
  };
  auto replayed_step = capture(train_step, {.device = device, .name = "training step"});

  Meter meter(history, progress, total);
  std::int64_t step = 0;
  while (step < total) {
    double epoch_start = meter.seconds();
    epoch_loss.zero_();
    std::optional<data::BatchLoader> loader;
    if (!resident) loader.emplace(streams);
    for (std::int64_t in_epoch = 0; in_epoch < streams.steps(); ++in_epoch) {
      data::Batch batch = loader ? *loader->next() : data::Batch{};
      profile::Scope scope = profiler.step();
      Tensor loss;
      if (resident) {
        loss = recipe.captured ? replayed_step() : train_step();
      } else {
        loss = recipe.captured ? replayed_step(batch.x, batch.y) : train_step(batch.x.to(device), batch.y.to(device));
      }
      ++step;
      if (step == 1 || step % recipe.log_every == 0 || step == total) meter.look(step, loss);
      if (step == total) break;
    }
    if (step % streams.steps() == 0) {
      meter.take();
      history.epoch_loss.push_back(epoch_loss.item<double>() /
                                   static_cast<double>(streams.steps()));  // waits for the GPU
      history.epoch_seconds.push_back(meter.seconds() - epoch_start);
    }
  }
  meter.take();
  synchronize(device);
  history.seconds = meter.seconds();
  if (replayed_step.captured()) history.program = replayed_step.report();
  history.steps = step;
  history.tokens = step * streams.tokens_per_step();
  return history;
}

double perplexity(nn::LanguageModel& model, std::span<const std::int32_t> ids, std::int64_t batch, Device device,
                  DType precision) {
  data::StreamBatches streams(ids, batch, model.config.seq);
  NoGrad no_grad;
  auto mixed = autocast(precision);
  model.eval();
  Tensor total = zeros({}, {f32, device});
  auto step = capture([&](const Tensor& x, const Tensor& y) { total.add_(model.loss(x, y)); },
                      {.device = device, .name = "evaluation"});
  for (const data::Batch& b : data::BatchLoader(streams)) step(b.x, b.y);
  model.train();
  return std::exp(total.item<double>() / static_cast<double>(streams.steps()));
}

}  // namespace wikitext
