#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include <etna/data/batches.h>
#include <etna/device/profile/step_profiler.h>
#include <etna/nn/language_model.h>
#include <etna/tensor/capture.h>

namespace wikitext {

struct Recipe {
  std::int64_t batch = 16;
  std::int64_t epochs = 0;  ///< what the schedule spans; 0: `steps`
  std::int64_t steps = 0;   ///< stop after so many; 0: at the end of the last epoch
  double lr = 1e-3;
  std::int64_t log_every = 10;        ///< steps between looks at the loss; none waits for the GPU
  bool captured = true;               ///< record a step once and replay it; else run op by op
  etna::DType precision = etna::f32;  ///< that products compute in: f32, f16 with loss scaling, bf16
  bool resident = false;  ///< upload the streams once and cut batches from them there; else upload each batch
  etna::profile::StepProfiler* profiler = nullptr;  ///< where set, told of every step
};

struct LossAt {
  std::int64_t step;  ///< counted from 1
  double loss;
};

/// What a training run measured.
struct History {
  std::vector<LossAt> loss;
  std::int64_t steps = 0, steps_per_epoch = 0, tokens = 0;
  double seconds = 0;             ///< of the whole loop
  double ms_per_step_median = 0;  ///< over the spans between looks, without the first step
  std::vector<double> epoch_seconds;
  std::vector<double> epoch_loss;              ///< mean over each whole epoch, gathered on the device
  std::optional<etna::ProgramReport> program;  ///< of the captured step
  etna::DType precision = etna::f32;

  double tokens_per_second() const { return seconds > 0 ? static_cast<double>(tokens) / seconds : 0; }
};

/// Called once the loss of a look has arrived, some steps later: that step and the steps in total, the loss there,
/// seconds since the start.
using Progress = std::function<void(std::int64_t step, std::int64_t steps, double loss, double seconds)>;

/// The loss became NaN or infinite.
struct NonFiniteLoss : std::exception {
  explicit NonFiniteLoss(std::string text) : text_(std::move(text)) {}
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  std::string text_;
};

/// Trains on contiguous streams of `ids`, where the model is. @throws NonFiniteLoss
History train(etna::nn::LanguageModel& model, std::span<const std::int32_t> ids, const Recipe& recipe,
              etna::Device device, const Progress& progress);

/// exp of the mean loss over the split, in the same streams.
double perplexity(etna::nn::LanguageModel& model, std::span<const std::int32_t> ids, std::int64_t batch,
                  etna::Device device, etna::DType precision);

}  // namespace wikitext
