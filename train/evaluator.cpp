#include <etna/train/evaluator.h>

#include <utility>

#include <etna/device/error.h>
#include <etna/tensor/autocast.h>
#include <etna/tensor/ops.h>

namespace etna::training {

Evaluator::Evaluator(nn::Module& model, Metric metric, EvaluatorOptions options)
    : model_(model),
      metric_(std::move(metric)),
      options_(std::move(options)),
      total_(options_.device),
      captured_([this](const Tensor& x, const Tensor& y) { return measure(x, y); },
                {.device = options_.device, .name = options_.title}) {}

Evaluator::~Evaluator() = default;

Tensor Evaluator::measure(const Tensor& x, const Tensor& y) {
  const GradMode off(false);
  const auto mixed = autocast(options_.precision);
  total_.add(metric_(x, y));
  return total_.total;
}

Evaluator::Pass::Pass(Evaluator& evaluator, std::int64_t count) : evaluator_(evaluator) {
  for (nn::Module* module : evaluator_.model_.modules()) modes_.emplace_back(module, module->training());
  evaluator_.model_.eval();
  evaluator_.total_.reset();
  if (count > 0)
    progress_ = std::make_unique<Progress>(
        count, ProgressOptions{.title = evaluator.options_.title, .lines = 0, .keep = false});
}

Evaluator::Pass::~Pass() {
  // Those above first: train() reaches the modules below.
  for (const auto& [module, training] : modes_) {
    if (module->training() != training) module->train(training);
  }
}

void Evaluator::Pass::add(const Tensor& x, const Tensor& y) {
  if (evaluator_.options_.captured) {
    evaluator_.captured_(x, y);
  } else {
    evaluator_.measure(x.to(evaluator_.options_.device), y.to(evaluator_.options_.device));
  }
  ++batches_;
  if (progress_) progress_->update(batches_, {});
}

double Evaluator::Pass::mean() {
  if (batches_ == 0) throw Error("Evaluator: there was no batch to measure");
  const double sum = evaluator_.total_.value();
  if (progress_) progress_->finish();
  return sum / static_cast<double>(batches_);
}

}  // namespace etna::training
