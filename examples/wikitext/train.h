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
  std::int64_t epochs = 0;  ///< length of the schedule; 0: `steps`
  std::int64_t steps = 0;   ///< stop after this many; 0: at the end of the last epoch
  double lr = 1e-3;
  std::int64_t log_every = 10;        ///< steps between reads of the loss; none waits for the GPU
  bool captured = true;               ///< record a step once and replay it; otherwise run op by op
  etna::DType precision = etna::f32;  ///< compute dtype of matrix products: f32, f16 with loss scaling, bf16
  bool resident = false;  ///< upload the streams once and slice batches on the device; otherwise upload each batch
  etna::profile::StepProfiler* profiler = nullptr;  ///< if set, is told of every step
};

struct LossAt {
  std::int64_t step;  ///< starts at 1
  double loss;
};

/// Measurements of a training run.
struct History {
  std::vector<LossAt> loss;
  std::int64_t steps = 0, steps_per_epoch = 0, tokens = 0;
  double seconds = 0;             ///< of the whole loop
  double ms_per_step_median = 0;  ///< over the spans between loss reads, without the first step
  std::vector<double> epoch_seconds;
  std::vector<double> epoch_loss;              ///< mean over each whole epoch, accumulated on the device
  std::optional<etna::ProgramReport> program;  ///< of the captured step
  etna::DType precision = etna::f32;

  double tokens_per_second() const { return seconds > 0 ? static_cast<double>(tokens) / seconds : 0; }
};

/// Called when a loss has arrived, some steps after its own: its step, the total steps, the loss, and seconds since the
/// start.
using Progress = std::function<void(std::int64_t step, std::int64_t steps, double loss, double seconds)>;

/// Thrown if the loss becomes NaN or infinite.
struct NonFiniteLoss : std::exception {
  explicit NonFiniteLoss(std::string text) : text_(std::move(text)) {}
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  std::string text_;
};

/// Trains on contiguous streams of `ids`, on the model's device. @throws NonFiniteLoss
History train(etna::nn::LanguageModel& model, std::span<const std::int32_t> ids, const Recipe& recipe,
              etna::Device device, const Progress& progress);

/// exp of the mean loss over the split, read in the same streams.
double perplexity(etna::nn::LanguageModel& model, std::span<const std::int32_t> ids, std::int64_t batch,
                  etna::Device device, etna::DType precision);

}  // namespace wikitext
