#include <etna/train/fit.h>

#include <cmath>
#include <utility>

#include <fmt/format.h>

#include <etna/device/error.h>
#include <etna/dist/dist.h>
#include <etna/nn/parallel/data_parallel.h>
#include <etna/optim/grad_scaler.h>
#include <etna/train/training_loop.h>
#include <etna/train/training_step.h>

namespace etna::training {

struct detail::Fit::State {
  optim::Optimizer& optimizer;
  const std::int64_t steps_per_epoch, total;
  RunningSum epoch_loss;
  std::int64_t made = 0;  ///< steps
  double mean = 0;        ///< of the last whole epoch
  Evaluator evaluator;
  std::function<double(Evaluator&)> validate;
  TrainingStep step;
  std::optional<RunFolder> folder = {};
  std::optional<TrainingLoop> loop = {};

  State(nn::Module& model, const Evaluator::Metric& loss, optim::Optimizer& o, std::int64_t steps,
        std::function<double(Evaluator&)> validation, const FitOptions& options)
      : optimizer(o),
        steps_per_epoch(steps),
        total(options.epochs * steps),
        epoch_loss(options.device),
        evaluator(model, loss,
                  {.device = options.device,
                   .precision = options.precision,
                   .captured = options.parallel == nullptr || options.parallel->can_capture(options.device),
                   .title = "validation"}),
        validate(std::move(validation)),
        step(loss, o,
             {.device = options.device,
              .precision = options.precision,
              .captured = options.captured,
              .schedule = options.schedule,
              .after = [this](const Tensor& value) { epoch_loss.add(value); },
              .parallel = options.parallel}) {}

  double end_epoch() {
    mean = epoch_loss.value() / static_cast<double>(steps_per_epoch);
    if (!std::isfinite(mean))
      throw NonFiniteLoss(fmt::format("fit: the mean loss of an epoch is {}; try a smaller learning rate", mean));
    epoch_loss.reset();
    return mean;
  }
};

detail::Fit::Fit(nn::Module& model, Evaluator::Metric loss, optim::Optimizer& optimizer, const CheckpointItem& loader,
                 std::int64_t steps_per_epoch, std::function<double(Evaluator&)> validate, const FitOptions& options) {
  if (options.epochs < 0 || steps_per_epoch < 1)
    throw Error(fmt::format("fit: {} epochs of {} batches are no training", options.epochs, steps_per_epoch));
  if (options.patience > 0 && !validate)
    throw Error(fmt::format("fit: a patience of {} epochs needs batches to validate with; give `valid`, or no patience",
                            options.patience));
  const bool resume = options.existing == ExistingRun::resume;
  if (resume && options.folder.empty()) throw Error("fit: to resume a run, name its folder");
  state_ = std::make_unique<State>(model, loss, optimizer, steps_per_epoch, std::move(validate), options);
  State& s = *state_;
  if (!options.folder.empty() && (options.parallel == nullptr || distributed::rank() == 0))
    s.folder.emplace(options.folder, options.existing);
  TrainingLoopOptions loop = {.steps = s.total,
                              .steps_per_epoch = steps_per_epoch,
                              .device = options.device,
                              .epoch_loss = [&s] { return s.end_epoch(); },
                              .patience = options.patience,
                              .folder = options.folder,
                              .items = {options.parallel != nullptr ? CheckpointItem("model", *options.parallel)
                                                                    : CheckpointItem("model", model),
                                        {"optimizer", optimizer},
                                        {"scaler", s.step.scaler()},
                                        loader,
                                        {"step", s.made},
                                        {"epoch_loss", s.epoch_loss.total},
                                        {"mean", s.mean}},
                              .checkpoint_seconds = options.checkpoint_seconds,
                              .resume = resume,
                              .progress = options.progress,
                              .distributed = options.parallel != nullptr,
                              .sharded = optimizer.is_sharded(),
                              .epoch_lines = true,
                              .name = "fit"};
  if (s.validate) loop.validate = [&s] { return s.validate(s.evaluator); };
  if (options.schedule != nullptr) loop.items.emplace_back("schedule", *options.schedule);
  s.loop.emplace(s.made, std::move(loop));
  if (s.made > s.total)
    throw Error(fmt::format("fit: {} steps are made, {} epochs have {}", s.made, options.epochs, s.total));
  model.train();
}

detail::Fit::~Fit() = default;

bool detail::Fit::go_on() const { return state_->loop->go_on(); }

void detail::Fit::step(const Tensor& x, const Tensor& y) {
  State& s = *state_;
  const double lr = s.optimizer.lr();
  const Tensor loss = s.step(x, y);
  ++s.made;
  s.loop->after_step(lr, loss);
}

FitResult detail::Fit::finish() {
  State& s = *state_;
  s.loop->finish();
  FitResult result{.steps = s.made, .epochs = s.made / s.steps_per_epoch, .loss = s.mean};
  if (std::isfinite(s.loop->valid_loss())) result.valid_loss = s.loop->valid_loss();
  if (s.made < s.total) {
    result.exit_code = s.loop->exit_code();
    result.ending = s.loop->interrupted() ? Ending::interrupted : Ending::patience;
  }
  return result;
}

}  // namespace etna::training
