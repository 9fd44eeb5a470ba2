#include "measure.h"

#include <algorithm>
#include <chrono>

#include <etna/autograd/autograd.h>
#include <etna/device/profile/profiler.h>
#include <etna/dist/dist.h>
#include <etna/models/decoder.h>
#include <etna/nn/parallel/data_parallel.h>
#include <etna/optim/adam.h>
#include <etna/optim/grad_scaler.h>
#include <etna/tensor/autocast.h>
#include <etna/tensor/ops.h>

#include "devices.h"

namespace bench {

using namespace etna;

namespace {

using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

/// A snapshot of the counters, to be subtracted from a later one.
struct Counters {
  Transfers transfers;
  gpu::QueueStats queue;
  std::uint64_t misses = 0;
};

Counters counters(Device device) {
  return {transfers(), device.is_vulkan() ? gpu::queue_stats(device) : gpu::QueueStats{}, memory_stats(device).misses};
}

void subtract(StepTimes& times, const Counters& before, const Counters& after) {
  times.misses = after.misses - before.misses;
  times.transfers = {.h2d_bytes = after.transfers.h2d_bytes - before.transfers.h2d_bytes,
                     .h2d_calls = after.transfers.h2d_calls - before.transfers.h2d_calls,
                     .d2h_bytes = after.transfers.d2h_bytes - before.transfers.d2h_bytes,
                     .d2h_calls = after.transfers.d2h_calls - before.transfers.d2h_calls,
                     .moved_tensors = after.transfers.moved_tensors - before.transfers.moved_tensors,
                     .fallbacks = after.transfers.fallbacks - before.transfers.fallbacks};
  times.queue = {.dispatches = after.queue.dispatches - before.queue.dispatches,
                 .barriers = after.queue.barriers - before.queue.barriers,
                 .submits = after.queue.submits - before.queue.submits,
                 .pipelines = after.queue.pipelines - before.queue.pipelines};
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  return n == 0 ? 0 : (values[(n - 1) / 2] + values[n / 2]) / 2;
}

/// Runs half a second of unrelated work. A GPU that was idle while the host made the model or captured the step takes
/// hundreds of milliseconds to raise its clocks; more training steps would change the reported loss.
void wake(Device device) {
  NoGrad no_grad;
  const Tensor a = ones({1024, 1024}, {f32, device});
  const auto start = Clock::now();
  while (ms_since(start) < 500) {
    for (int i = 0; i < 16; ++i) matmul(a, a);
    synchronize(device);
  }
  empty_cache(device);
}

StepOptions with_defaults(StepOptions options, Device device) {
  const bool cpu = device.is_cpu();
  if (options.steps == 0) options.steps = cpu ? 5 : 50;
  if (options.warm_up == 0) options.warm_up = cpu ? 2 : 5;  // the second step is captured
  if (options.span == 0) options.span = cpu ? 1 : 10;
  options.span = std::min(options.span, options.steps);
  return options;
}

}  // namespace

double StepTimes::median_ms() const { return median(span_ms); }

StepTimes time_steps(const Workload& workload, Device device, StepOptions options) {
  options = with_defaults(options, device);
  manual_seed(1 + static_cast<std::uint64_t>(distributed::rank()));
  models::Decoder model(models::decoder_config("gpt2", workload.model));
  model.to(device);
  distributed::DataParallel parallel(model, {.bucket_bytes = options.bucket_bytes, .dtype = options.reduced});
  parallel.set_reduce(options.reduce);
  optim::AdamW optimizer(model.parameters(), {.lr = 1e-4, .max_grad_norm = 1});
  optim::GradScaler scaler({.enabled = options.precision == f16});
  const Shape shape{workload.batch, workload.model.context};
  const Tensor x = randint(0, workload.model.vocabulary, shape, {i32}),
               y = randint(0, workload.model.vocabulary, shape, {i32});

  auto train = [&](const Tensor& inputs, const Tensor& targets) {
    Tensor loss;
    {
      auto mixed = autocast(options.precision);
      loss = model.loss(inputs, targets);
    }
    scaler.scale(loss).backward();
    scaler.step(optimizer);
    scaler.update();
    optimizer.zero_grad();
    return loss.detach();
  };
  auto replayed = capture(train, {.device = device});
  Tensor loss;
  auto step = [&] { loss = options.captured ? replayed(x, y) : train(x.to(device), y.to(device)); };

  StepTimes times;
  times.precision = options.precision;
  times.parameters = model.num_parameters();
  reset_peak_memory(device);
  reset_peak_memory(kCPU);
  auto start = Clock::now();
  for (std::int64_t i = 0; i < options.warm_up; ++i) {
    step();
    if (i > 0) continue;
    times.first_loss = loss.item<double>();
    times.first_ms = ms_since(start);
  }
  synchronize(device);
  times.peak_device = memory_stats(device).peak;
  if (device.is_vulkan() && !is_software(device)) wake(device);
  reset_peak_memory(device);

  const Counters before = counters(device);
  std::vector<double> host_ms;
  while (times.steps < options.steps) {
    const std::int64_t span = std::min(options.span, options.steps - times.steps);
    start = Clock::now();
    for (std::int64_t i = 0; i < span; ++i) {
      auto call = Clock::now();
      step();
      host_ms.push_back(ms_since(call));
    }
    synchronize(device);
    times.span_ms.push_back(ms_since(start) / static_cast<double>(span));
    times.steps += span;
  }
  subtract(times, before, counters(device));
  times.host_ms = median(host_ms);
  times.last_loss = loss.item<double>();
  times.peak_host = memory_stats(kCPU).peak;
  times.peak_device = std::max(times.peak_device, memory_stats(device).peak);
  if (options.profile > 0) {
    profile::StepProfiler profiler({.skip = 0, .steps = options.profile, .what = {.timing = options.timing}});
    for (std::int64_t i = 0; i < options.profile; ++i) {
      profile::Scope scope = profiler.step();
      step();
    }
    times.profile = profiler.take();
  }
  if (options.captured && replayed.captured()) times.program = replayed.report();
  return times;
}

}  // namespace bench
