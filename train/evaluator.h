#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <etna/device/owned.h>
#include <etna/nn/module.h>
#include <etna/tensor/capture.h>
#include <etna/tensor/tensor.h>
#include <etna/train/progress.h>

namespace etna::training {

/// A sum of many numbers on a device, as exact as one in twice the precision (Kahan 1965). Captured steps may add to
/// it.
class RunningSum {
 public:
  explicit RunningSum(Device device);
  /// @param value 0-d
  void add(const Tensor& value);
  void reset();
  /// Waits for the device.
  double value() const;

  Tensor total;  ///< 0-d f32: the sum, rounded; what a checkpoint keeps

 private:
  Tensor excess_;  ///< how much larger `total` is than the sum
};

struct EvaluatorOptions {
  Device device = {};     ///< of the model
  DType precision = f32;  ///< what products compute in
  bool captured = true;   ///< record the first batches and replay them
  std::string title = "evaluate";
};

/// The mean of a metric over batches: no gradients, the model in eval mode, one number read at the end. May be called
/// again and again; replays use the model's present weights.
///     auto loss = [&](const Tensor& x, const Tensor& y) { return model.loss(x, y); };
///     training::Evaluator evaluator(model, loss, {.device = device});
///     double loss = evaluator.mean(data::BatchLoader(streams), streams.steps());
class Evaluator {
 public:
  using Metric = std::function<Tensor(const Tensor& x, const Tensor& y)>;  ///< returns a 0-d tensor

  /// @param model outlives the evaluator, as does what the metric refers to
  Evaluator(nn::Module& model, Metric metric, EvaluatorOptions options = {});
  ~Evaluator();
  Evaluator(const Evaluator&) = delete;
  Evaluator& operator=(const Evaluator&) = delete;

  /// @param batches a range of batches with members x and y, or of pairs of tensors
  /// @param count how many there are, for the bar; 0: no bar
  /// @throws Error where there is no batch
  template <typename Batches>
  double mean(Batches&& batches, std::int64_t count = 0) {
    Pass pass(*this, count);
    for (const auto& batch : batches) {
      if constexpr (requires { batch.x; }) {
        pass.add(batch.x, batch.y);
      } else {
        const auto& [x, y] = batch;
        pass.add(x, y);
      }
    }
    return pass.mean();
  }

 private:
  /// One call of mean(): restores the mode of each module at the end.
  class Pass {
   public:
    Pass(Evaluator& evaluator, std::int64_t count);
    ~Pass();
    void add(const Tensor& x, const Tensor& y);
    double mean();

   private:
    Evaluator& evaluator_;
    std::vector<std::pair<nn::Module*, bool>> modes_;
    std::int64_t batches_ = 0;
    Owned<Progress> progress_;
  };
  Tensor measure(const Tensor& x, const Tensor& y);

  nn::Module& model_;
  Metric metric_;
  EvaluatorOptions options_;
  RunningSum total_;  ///< over the batches so far
  CapturedFunction<std::function<Tensor(const Tensor&, const Tensor&)>> captured_;
};

struct EarlyStoppingOptions {
  std::int64_t patience = 5;  ///< evaluations in a row without improvement after which to stop; 0: never stop
  double min_delta = 0;       ///< an improvement is larger than this
  bool maximize = false;      ///< larger is better: accuracy
};

/// Watches a validation metric.
///     if (stopping.improved(loss)) checkpoints.save(step, {}, true);  // the best so far
///     if (stopping.should_stop()) break;
class EarlyStopping {
 public:
  /// @throws Error for a negative option or NaN
  explicit EarlyStopping(EarlyStoppingOptions options = {});

  /// Takes the value of one evaluation. @return true if it is the best so far; a NaN never is
  bool improved(double value);
  /// True if the last value was the best so far.
  bool improved() const { return bad_ == 0 && best_ != std::numeric_limits<double>::infinity(); }
  /// After `patience` values in a row that did not improve.
  bool should_stop() const { return options_.patience > 0 && bad_ >= options_.patience; }
  /// Infinite before the first value.
  double best() const { return options_.maximize ? -best_ : best_; }

  /// "best" and "num_bad", f64 on the CPU.
  std::map<std::string, Tensor> state_dict() const;
  /// @throws Error unless these are the names
  void load_state_dict(const std::map<std::string, Tensor>& state);

 private:
  EarlyStoppingOptions options_;
  double best_ = std::numeric_limits<double>::infinity();  ///< negated if larger is better
  std::int64_t bad_ = 0;
};

}  // namespace etna::training
