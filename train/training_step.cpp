#include <etna/train/training_step.h>

#include <utility>

#include <etna/autograd/autograd.h>
#include <etna/dist/dist.h>
#include <etna/nn/parallel/data_parallel.h>
#include <etna/optim/grad_scaler.h>
#include <etna/optim/schedule.h>
#include <etna/tensor/autocast.h>
#include <etna/tensor/ops.h>

namespace etna::training {

struct TrainingStep::State {
  Loss loss;
  optim::Optimizer& optimizer;
  TrainingStepOptions options;
  optim::GradScaler scaler;
  CapturedFunction<std::function<Tensor(const Tensor&, const Tensor&)>> replayed;
  CapturedFunction<std::function<Tensor()>> replayed_alone;

  State(Loss function, optim::Optimizer& o, TrainingStepOptions given)
      : loss(std::move(function)),
        optimizer(o),
        options(std::move(given)),
        scaler({.enabled = options.precision == f16}),
        replayed([this](const Tensor& x, const Tensor& y) { return train(x, y); }, capture_options()),
        replayed_alone([this] { return train({}, {}); }, capture_options()) {
    if (options.parallel != nullptr) options.captured &= options.parallel->can_capture(options.device);
  }

  CaptureOptions capture_options() const {
    return {.device = options.device, .name = "training step", .varied_shapes = options.varied_shapes};
  }

  Tensor train(const Tensor& x, const Tensor& y) {
    Tensor total;
    for (std::int64_t k = 0; k < options.accumulation; ++k) {
      const Tensor batch_x = rows(x, k), batch_y = rows(y, k);
      Tensor value;
      {
        auto mixed = autocast(options.precision);
        value = loss(batch_x, batch_y);
      }
      if (options.accumulation > 1) value = value / static_cast<double>(options.accumulation);
      const double weight = options.weight ? options.weight(batch_x) : 1;
      if (options.parallel != nullptr) options.parallel->set_reduce(k + 1 == options.accumulation);
      scaler.scale(weight == 1 ? value : value * weight).backward();
      total = total.defined() ? total + value.detach() : value.detach();
    }
    if (options.parallel != nullptr) total = distributed::all_reduce(total, distributed::Reduce::mean);
    scaler.step(optimizer);
    scaler.update();
    if (options.schedule != nullptr) options.schedule->step();
    optimizer.zero_grad();
    if (options.after) options.after(total);
    return total;
  }

  /// Those of one of the accumulated batches.
  Tensor rows(const Tensor& all, std::int64_t batch) const {
    if (!all.defined() || options.accumulation == 1) return all;
    const std::int64_t count = all.size(0) / options.accumulation;
    return all.slice(0, batch * count, (batch + 1) * count);
  }
};

TrainingStep::TrainingStep(Loss loss, optim::Optimizer& optimizer, TrainingStepOptions options)
    : state_(std::make_unique<State>(std::move(loss), optimizer, std::move(options))) {}

TrainingStep::~TrainingStep() = default;

Tensor TrainingStep::operator()(const Tensor& x, const Tensor& y) {
  if (state_->options.captured) return state_->replayed(x, y);
  return state_->train(x.to(state_->options.device), y.to(state_->options.device));
}

Tensor TrainingStep::operator()() {
  return state_->options.captured ? state_->replayed_alone() : state_->train({}, {});
}

optim::GradScaler& TrainingStep::scaler() { return state_->scaler; }

std::optional<CaptureReport> TrainingStep::report() const {
  if (state_->replayed.captured()) return state_->replayed.report();
  if (state_->replayed_alone.captured()) return state_->replayed_alone.report();
  return std::nullopt;
}

}  // namespace etna::training
