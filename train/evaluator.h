#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <etna/nn/module.h>
#include <etna/tensor/capture.h>
#include <etna/train/progress.h>
#include <etna/train/running_sum.h>

namespace etna::training {

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
    std::unique_ptr<Progress> progress_;
  };
  Tensor measure(const Tensor& x, const Tensor& y);

  nn::Module& model_;
  Metric metric_;
  EvaluatorOptions options_;
  RunningSum total_;  ///< over the batches so far
  CapturedFunction<std::function<Tensor(const Tensor&, const Tensor&)>> captured_;
};

}  // namespace etna::training
